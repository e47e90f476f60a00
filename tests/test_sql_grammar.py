"""``cd.grammars.SQL`` and ``cd.grammars.sql`` beside sqlglot and SQLite."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from engine_tools import at_least, cases
from grammar_tools import Walker

import cdplugin as cd

WORDS = (
    "select from where and or not in is null join left inner on group by order having limit offset union all distinct as case "
    "when then else end cast exists count sum avg row_number rank over partition between like insert into values update set "
    "delete create table index view primary key unique default references drop alter add column rename to integer text varchar "
    "with recursive using cross true false current_date asc desc nulls first last rows unbounded preceding users id name orders"
).split()
SIGNS = [
    "(",
    ")",
    ", ",
    "*",
    " = ",
    " < ",
    "1",
    "10",
    "2.5",
    "'a'",
    "''",
    '"q"',
    ".",
    "-- c\n",
    "/* c */",
    " ",
    "\n",
    "||",
    "(1, 2)",
]
WALKER = Walker([*WORDS, *(word.upper() for word in WORDS)], SIGNS)
SCHEMA = {"users": ["id", "name"], "orders": ["id", "user_id", "total price", "select"], 'we"ird': ["a.b", "ünï"]}
BEGINNINGS = ["", "select ", "select a from ", "insert into t ", "update t set ", "create table t (", "select sum(a) over ("]
BEGINNINGS += ["with x as (", "select case ", "alter table t ", "select a from t where a ", "select a from (t natural "]
BEGINNINGS += ["insert into t values (1) on conflict ", "update t set a = 1 from ", "delete from t as x "]
BEGINNINGS += ["create table t (a int references u ", "create table t (a int constraint c ", "select a from t where (a, b) "]
BEGINNINGS += [
    "select max(a) filter ",
    "select a from t where a is ",
    "select sum(b) over w from t window w as (",
    "select distinct(",
]
BEGINNINGS += [
    "create table t (a, b ",
    "create table t (a serial ",
    "alter table t add ",
    "select a from t limit ",
    "select now(",
]
BEGINNINGS += [
    "select a from t group by rollup(",
    "select a::",
    "select interval ",
    "select extract(",
    "select a from f(",
    "select ?, :x ",
]
BEGINNINGS += ["insert or replace into t ", "create index i on t (lower(a)", "select a from t where not(", "create view v (a"]
BEGINNINGS += [
    "select * from (values (",
    "select sum(a) over (order by b groups ",
    "select a from t where a = any (",
    "select a collate ",
]
BEGINNINGS += [
    "alter table t drop ",
    "create table t (a foo, b ",
    "create index i on t using ",
    "insert into t select a from t ",
    "select (a).",
]
BEGINNINGS += [
    "select a from t group by grouping sets (",
    "select f(a) within ",
    "values (1) ",
    "select a is not ",
    "select a -> ",
    "drop ",
]
BEGINNINGS += [
    "select sum(a) over (rows between ",
    "select a from t for ",
    "truncate ",
    "begin ",
    "with x as (insert into t ",
    "select s.f(",
]
BEGINNINGS += [
    "select*from t where(a)and'x'",
    "select(a)from(select'x'as b)where a like'x'",
    "select case when(a)then'x'else(b)end ",
]


@pytest.fixture(scope="module")
def database() -> sqlite3.Connection:
    out = sqlite3.connect(":memory:")
    out.create_function("regexp", 2, lambda a, b: a == b)
    out.execute("CREATE TABLE k (a PRIMARY KEY, b)")
    for table, columns in [*SCHEMA.items(), ("t", ["a", "b", "c", "d"])]:
        listed = ", ".join('"' + column + '"' for column in columns)
        out.execute(f'CREATE TABLE "{table.replace(chr(34), 2 * chr(34))}" ({listed})')
    return out


def fault(database: sqlite3.Connection, text: str) -> str:
    """The error of SQLite when it prepares the text; nothing is run."""
    try:
        database.execute("EXPLAIN " + text)
    except sqlite3.Error as error:
        return str(error)
    return ""


STATEMENTS = [
    "SELECT * FROM t",
    "select a, t.b AS x, count(*) n from t where a = 1 and not (b > 2 or c is not null) group by a having count(*) > 1;",
    "SELECT DISTINCT a FROM t ORDER BY a DESC NULLS LAST, b LIMIT 10 OFFSET 5",
    "SELECT x.a FROM t x LEFT JOIN t AS y ON x.a = y.b INNER JOIN t z USING (a), t w CROSS JOIN t v WHERE x.a IN (1, 2)",
    "WITH x(n) AS (SELECT 1 UNION ALL SELECT 2), y AS (SELECT * FROM x) SELECT n FROM x WHERE n IN (SELECT n FROM y)",
    "WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c WHERE n < 5) SELECT sum(n) FROM c",
    "SELECT a, rank() OVER (PARTITION BY b ORDER BY c DESC) FROM t",
    "SELECT sum(a) OVER (ORDER BY b ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), avg(a) OVER () FROM t",
    "SELECT CASE WHEN a > 1 THEN 'x' WHEN b THEN 'y''z' ELSE NULL END, CASE a WHEN 1 THEN 2 END FROM t",
    "SELECT CAST(a AS DECIMAL(10, 2)), coalesce(a, b, 0), count(DISTINCT a), a || '-' || b FROM t",
    "SELECT a FROM t WHERE a BETWEEN 1 AND 2 AND b NOT LIKE 'x%' AND EXISTS (SELECT 1 FROM t) AND c NOT IN (1)",
    "SELECT (SELECT max(a) FROM t), -a * (b + 1.5e3) % 2 FROM (SELECT a, b FROM t) AS s -- the end\n",
    "SELECT a FROM t UNION SELECT b FROM t INTERSECT SELECT 1 EXCEPT SELECT 2 ORDER BY 1",
    "INSERT INTO t (a, b) VALUES (1, 'x'), (2, NULL)",
    "INSERT INTO t SELECT a, b, c, d FROM t WHERE a IS NULL",
    "insert into t default values",
    "UPDATE t SET a = a + 1, b = (SELECT max(b) FROM t) WHERE c <> 'x'",
    "DELETE FROM t WHERE a < 3",
    "CREATE TABLE IF NOT EXISTS n (id INTEGER PRIMARY KEY, s VARCHAR(20) NOT NULL DEFAULT 'x' CHECK (s <> ''), "
    "t REAL REFERENCES t (a), UNIQUE (s), FOREIGN KEY (t) REFERENCES t (b))",
    "CREATE TABLE n AS SELECT * FROM t",
    "CREATE UNIQUE INDEX i ON t (a DESC, b)",
    "CREATE VIEW v AS SELECT a FROM t",
    "DROP TABLE IF EXISTS t",
    "DROP INDEX IF EXISTS i",
    "ALTER TABLE t ADD COLUMN z INTEGER DEFAULT 0",
    "ALTER TABLE t RENAME COLUMN a TO q",
    "ALTER TABLE t DROP COLUMN b",
    "SELECT x.a FROM (t AS x JOIN t AS y ON x.a = y.a) NATURAL LEFT JOIN t CROSS JOIN (t), ((SELECT 1 AS n)) AS z",
    "SELECT a FROM (WITH x AS (SELECT a FROM t) SELECT a FROM x) WHERE a IN (WITH y AS (SELECT 1) SELECT * FROM y)",
    "WITH x AS (SELECT 1 AS n) INSERT INTO t (a) SELECT n FROM x",
    "WITH x AS (SELECT 1 AS n) UPDATE t AS y SET a = x.n FROM x WHERE y.b = x.n RETURNING a, b AS c",
    "WITH x AS (SELECT 1 AS n) DELETE FROM t AS y WHERE y.a IN (SELECT n FROM x) RETURNING *",
    "INSERT INTO t WITH x AS (SELECT a, b, c, d FROM t) SELECT * FROM x",
    "INSERT INTO t (a) VALUES (1) ON CONFLICT DO NOTHING RETURNING a",
    "INSERT INTO k (a, b) VALUES (1, 2) ON CONFLICT (a) DO UPDATE SET b = 3 WHERE b < 3",
    "SELECT a FROM t WHERE (a, b) IN (SELECT c, d FROM t) AND (a, b) = (1, 2) AND (a, b) < (c, d)",
    "SELECT a FROM t WHERE a LIKE '10!%' ESCAPE '!' AND b IS NOT TRUE",
    "SELECT count(*) FILTER (WHERE a > 1), sum(a) FILTER (WHERE b) OVER (ROWS 2 PRECEDING) FROM t",
    "SELECT sum(a) OVER (PARTITION BY b ORDER BY c RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM t",
    "CREATE TEMPORARY TABLE n (a INTEGER CONSTRAINT p PRIMARY KEY, b DOUBLE PRECISION, c DATETIME, "
    "d INT REFERENCES t (a) ON DELETE SET NULL ON UPDATE CASCADE, CONSTRAINT u UNIQUE (a, b), CONSTRAINT h CHECK (a > 0), "
    "CONSTRAINT f FOREIGN KEY (a, b) REFERENCES t (c, d) ON DELETE NO ACTION)",
    "CREATE TABLE main.n AS SELECT 1",
    "CREATE TEMP VIEW v AS SELECT 1",
    "CREATE TABLE n(a, b PRIMARY KEY, c INTEGER NULL DEFAULT (1 + 2), d TEXT COLLATE NOCASE UNIQUE, e JSONB, f DEFAULT(1))",
    "CREATE TABLE n(id INTEGER PRIMARY KEY AUTOINCREMENT, at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP)",
    "CREATE INDEX i ON t (lower(a), (b + c) DESC, d COLLATE NOCASE, coalesce(a, b)) WHERE a > 1",
    "CREATE VIEW v (x, y) AS SELECT a, b FROM t",
    "INSERT OR REPLACE INTO t VALUES (1, 2, 3, 4)",
    "insert or ignore into t (a) select b from t",
    "ALTER TABLE t ADD colour INTEGER",
    "ALTER TABLE t RENAME c TO column_",
    "SELECT DISTINCT(a), b FROM t WHERE NOT(a = 1) AND(b = 2) OR(c = 3)",
    "SELECT count(DISTINCT(a)), max(DISTINCT(b)), sum(a) FROM t HAVING sum(a) > 1",
    "SELECT x.a FROM t AS x JOIN t AS y LEFT JOIN t z ON z.a = x.a WHERE x.a = y.b",
    "SELECT a FROM t LIMIT (SELECT 1) OFFSET (SELECT 2)",
    "SELECT a << 1 | b & c, a COLLATE NOCASE FROM t WHERE a IS DISTINCT FROM b AND b IS NOT DISTINCT FROM a OR c GLOB 'x'",
    "SELECT sum(a) OVER w, rank() OVER v FROM t WINDOW w AS (PARTITION BY b ORDER BY c), v AS (ORDER BY a) ORDER BY a",
    "SELECT sum(a) OVER (ORDER BY b GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM t",
    "SELECT sum(a) OVER (ORDER BY b ROWS 1 PRECEDING EXCLUDE NO OTHERS), sum(b) OVER(PARTITION BY a) FROM t",
    "WITH RECURSIVE c(n) AS (VALUES (1), (2) UNION ALL SELECT n + 1 FROM c) SELECT * FROM c, (VALUES (1, 2)) x",
    "SELECT random(), a FROM t GROUP BY a, b",
    "SELECT date , timestamp AS date, x.now FROM (SELECT a AS date, b AS timestamp, c AS now FROM t) x ORDER BY date DESC",
    "VALUES (1, 2), (3, 4)",
    "SELECT a == b, a -> 'x', a ->> '$.y', lower(a ->> 1), (a || b) -> 'x' ->> b FROM t WHERE t.a -> 'x' == 1",
    "SELECT a, a NOTNULL, b ISNULL, ~a, trim(a), trim(a, 'x') FROM t LIMIT -1 OFFSET 3",
    "SELECT x.a FROM (SELECT a FROM t)x JOIN (SELECT b FROM t)y ON x.a = y.b WHERE x.a IS NULL",
    "SELECT sum(a) OVER (w ORDER BY b), sum(b) OVER (w), max(c) OVER (w ROWS 1 PRECEDING) FROM t WINDOW w AS (PARTITION BY c)",
    "SELECT main.t.a, t.b FROM main.t",
    "WITH x AS MATERIALIZED (SELECT 1 AS n), y AS NOT MATERIALIZED (SELECT 2), z AS (SELECT 3) SELECT n FROM x",
    "CREATE TABLE n (a INTEGER PRIMARY KEY DESC, b INT GENERATED ALWAYS AS (a * 2), c TEXT AS (a || 'x') STORED NOT NULL)",
    "CREATE TABLE n (a CHARACTER VARYING(3), b CHARACTER NOT NULL, c DOUBLE NOT NULL, d DOUBLE PRECISION, f BINARY(3))",
    "INSERT INTO k (a) VALUES (1) ON CONFLICT (a) WHERE a > 0 DO NOTHING",
    "INSERT INTO k AS x (a, b) SELECT a, b FROM t WHERE TRUE ON CONFLICT (a) DO UPDATE SET b = 3",
    "INSERT OR FAIL INTO k VALUES (1, 2)",
    "UPDATE t SET (a, b) = (1, 2), c = 3",
    "UPDATE t SET (a, b) = (SELECT 1, 2)",
    'CREATE TABLE zähler (höhe INT, 名前 TEXT, длина REAL, "x y" INT)',
    "BEGIN TRANSACTION",
    "commit;",
    "WITH user(user) AS (SELECT 1) SELECT user.user AS user FROM user WHERE user = 1;\n",
    "SELECT a FROM t; -- the end\n/* of it */ ",
    "SELECT a IS b, a IS NOT 1, a = b = c, a IS NULL = b, a IN (1) IS NOT NULL, a LIKE b ESCAPE 'x' = c FROM t",
    "SELECT f.a FROM (SELECT a FROM t UNION VALUES (2) UNION SELECT 3 ORDER BY 1) f LIMIT 1 + 2 * (3 - 1) OFFSET 1 + 1",
    "VALUES (1), (2) UNION VALUES (3) UNION SELECT a FROM t ORDER BY 1",
    "SELECT a IN (VALUES (1), (2)), (VALUES (1)), EXISTS (VALUES (1)), - -a, -+~a FROM t",
    "SELECT x.a FROM t x CROSS JOIN t y ON x.a = y.b CROSS JOIN t z USING (a)",
    "SELECT sqlite_version(), count(), count(ALL a), sum(ALL b), '[1, 2]' -> '$[0]' ->> -1, a -> (b || 'x') FROM t",
    "SELECT sum(a) OVER (ORDER BY b RANGE BETWEEN 1.5 PRECEDING AND (1 + 1) FOLLOWING) FROM t",
    "SELECT div, current FROM (SELECT a AS div, b AS current FROM t) AS match WHERE match.div = 1",
    "CREATE TABLE n (a INT REFERENCES t (a) MATCH FULL ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED NOT NULL, "
    "b INT REFERENCES t DEFERRABLE, c INTERVAL, FOREIGN KEY (a) REFERENCES t (a) DEFERRABLE INITIALLY IMMEDIATE)",
    "CREATE TABLE n (a INT UNIQUE ON CONFLICT IGNORE, b INT, UNIQUE (b) ON CONFLICT ABORT) STRICT",
    "CREATE TABLE n AS VALUES (1)",
    "CREATE VIEW main.v AS VALUES (1)",
    "CREATE INDEX main.i ON t (a)",
    "DROP TABLE IF EXISTS main.t",
    "DROP INDEX IF EXISTS main.i",
    "ALTER TABLE t ADD COLUMN z INTEGER REFERENCES k (a) ON DELETE SET NULL COLLATE NOCASE CHECK (z > 1)",
    "ALTER TABLE t ADD COLUMN z INT CONSTRAINT y CHECK (z > 0) NULL",
    "ALTER TABLE t DROP b",
    "INSERT INTO k WITH x AS (SELECT 1 AS a, 2 AS b) SELECT a, b FROM x WHERE TRUE ON CONFLICT (a) DO NOTHING",
    "BEGIN IMMEDIATE TRANSACTION ;",
    "BEGIN ",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_statements(text: str, database: sqlite3.Connection) -> None:
    assert not fault(database, text)
    assert WALKER.follow(cd.grammars.SQL, text).is_accepting()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT",
        "SELECT FROM t",
        "SELECTa FROM t",
        "SELECT 1AND 2",
        "SELECT a FROM t wherea = 1",
        "SELECT a, FROM t",
        "SELECT a FROM t WHERE",
        "SELECT a FROM t GROUP a",
        "SELECT (a FROM t",
        "SELECT 'a FROM t",
        "SELECT a FROM t ORDER BY a LIMIT",
        "SELECT CASE WHEN a THEN b FROM t",
        "INSERT INTO t VALUES",
        "UPDATE t WHERE a = 1",
        "DELETE t",
        "CREATE TABLE n ()",
        "SELECT a FROM t; SELECT b FROM t",
        "SELECT a FROM select",
        "SELECT a FROM (t JOIN) AS x",
        "SELECT a FROM t NATURAL t",
        "SELECT sum(a) FILTER (a > 1) FROM t",
        "SELECT a FROM t WHERE (a, b IN (SELECT 1, 2)",
        "SELECT sum(a) OVER (ROWS) FROM t",
        "UPDATE t SET a = 1 RETURNING",
        "INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE",
        "CREATE TABLE n (a INT CONSTRAINT)",
        "CREATE TABLE n (a INT REFERENCES t ON DELETE)",
        "BEGIN COMMIT",
        "SELECT a FROM t WHERE NOT(a",
        "SELECT DISTINCT(a FROM t",
        "SELECT sum(a) OVER w FROM t WINDOW w (ORDER BY a)",
        "SELECT a FROM t LIMIT a",
        "CREATE TABLE n (a INTEGER AUTOINCREMENT)",
        "SELECT a FROM t WHERE a = :",
        "VALUES 1",
        "INSERT OR INTO t VALUES (1)",
        "SELECT a -> FROM t",
        "SELECT a === b FROM t",
        "SELECT sum(a) OVER (rows) FROM t",
        "CREATE TABLE n (a INT GENERATED AS (1))",
        "CREATE TABLE n (a INT AS b)",
        "UPDATE t SET (a, b) = 1, 2",
        "WITH x AS NOT (SELECT 1) SELECT 1",
        "SELECT a FROM t LIMIT - OFFSET 1",
        "SELECT trim(a",
        "SELECT a FROM t LIMIT 1 +",
        "SELECT a FROM t LIMIT 1 b",
        "SELECT f(, a) FROM t",
        "SELECT a IS FROM t",
        "SELECT a IS NOT FROM t",
        "SELECT sum(a) OVER (ROWS PRECEDING) FROM t",
        "CREATE TABLE n (a INT REFERENCES t INITIALLY)",
        "ALTER TABLE t DROP",
        "DROP TABLE IF t",
        "BEGIN NOW",
    ],
)
def test_refuses(text: str, database: sqlite3.Connection) -> None:
    assert not WALKER.takes(cd.grammars.SQL, text)
    try:
        assert fault(database, text)
    except sqlite3.Warning:  # two statements at once
        assert ";" in text


OF_OTHERS = [
    "SELECT a FROM t WHERE a = ? AND b = :name AND c = $1 LIMIT ? OFFSET :skip",
    "SELECT CAST(a AS INT)::text::varchar(3), b::double precision * 2 FROM t WHERE a ILIKE 'x%' OR b NOT ILIKE 'y'",
    "SELECT EXTRACT(YEAR FROM a), now() - INTERVAL '1 day', DATE '2024-01-01' FROM t WHERE a > ALL (SELECT b FROM t)",
    "SELECT a, b, sum(c) FROM t GROUP BY ROLLUP (a, b), CUBE (t.c)",
    "SELECT g.a FROM generate_series(1, 10) AS g JOIN f(1) ON g.a = f.b WHERE a COLLATE \"en_US\" = 'x'",
    "ALTER TABLE t ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES u (b) ON DELETE CASCADE",
    "ALTER TABLE t ADD PRIMARY KEY (a)",
    "(SELECT a FROM t ORDER BY a LIMIT 1) UNION ALL (SELECT 2) EXCEPT ALL SELECT 3 ORDER BY 1",
    "SELECT 1 UNION (SELECT 2) UNION DISTINCT SELECT 3 OFFSET 5",
    "SELECT a FROM t ORDER BY a OFFSET 5 ROWS FETCH NEXT 10 ROWS ONLY",
    "SELECT a FROM t FETCH FIRST ROW ONLY FOR UPDATE SKIP LOCKED",
    "SELECT DISTINCT ON (a, b) c, a[1], ARRAY[1, 2], b AT TIME ZONE 'UTC' FROM t, UNNEST(x) AS u WHERE a = ANY(b)",
    "SELECT * FROM a JOIN LATERAL (SELECT 1) x ON TRUE CROSS JOIN LATERAL f(1) AS y (z), (VALUES (1, 'a')) AS v (id, name)",
    "SELECT string_agg(a, ',' ORDER BY b), array_agg(DISTINCT a ORDER BY b DESC) FILTER (WHERE c), @x, $name FROM d.s.t",
    "SELECT LEFT(a, 1), RIGHT(b, 2), IF(a, b, c), INTERVAL '1' DAY, INTERVAL 2 days, now(), unixepoch(), TIME '10:00'",
    "SELECT POSITION('a' IN b), SUBSTRING(a FROM 1 FOR 2), TRIM(BOTH 'x' FROM y), TRIM(LEADING FROM y), TRIM(' ' FROM y)",
    "DELETE FROM t USING u WHERE t.a = u.a",
    "INSERT INTO t VALUES (DEFAULT, 1)",
    "UPDATE t SET a = DEFAULT",
    "TRUNCATE TABLE t",
    "CREATE OR REPLACE VIEW v AS SELECT 1",
    "CREATE MATERIALIZED VIEW v AS SELECT 1",
    "DROP TABLE t CASCADE",
    "ALTER TABLE t ALTER COLUMN a TYPE BIGINT",
    "ALTER TABLE t ALTER COLUMN a SET NOT NULL",
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT",
    "ALTER TABLE t DROP CONSTRAINT c",
    "CREATE TABLE t (a INT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, b TEXT[], c TIMESTAMP WITH TIME ZONE DEFAULT now())",
    "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, b UUID DEFAULT gen_random_uuid(), c TIMESTAMP DEFAULT now())",
    "SELECT a FROM t WHERE a = :end AND b = @from LIMIT :limit OFFSET $offset",
    "SELECT s.f(a), s.g(), d.s.h(DISTINCT a) FILTER (WHERE b) OVER (), count(t.*) FROM s.f(1) AS x, g() WITH ORDINALITY",
    "SELECT f(a ORDER BY b), percentile_cont(0.5) WITHIN GROUP (ORDER BY a), first_value(a) IGNORE NULLS OVER w FROM t",
    "SELECT a FROM t GROUP BY GROUPING SETS ((a, b), (), ROLLUP (c)), (), d",
    "SELECT a, b FROM t GROUP BY a, b WITH ROLLUP HAVING a > 1",
    "SELECT a::m, b::text[], c::timestamp(3) with time zone, d::s.m(3)[], (a, b)::m, a::json -> 'x', CAST(a AS m) FROM t",
    "SELECT (a).b, (a).*, a[1:2], a[1].b, (a)[1][2], d.s.t.*, a #>> '{x}', a ^ 2, ARRAY(SELECT 1), unnest(a) FROM d.s.t",
    "SELECT a AT TIME ZONE 'UTC' AT TIME ZONE b.c, current_timestamp(3), CURRENT_USER, CURRENT_USER::text FROM t",
    "SELECT a NOT SIMILAR TO b, a ILIKE b ESCAPE 'x', a LIKE ANY (ARRAY['x']), a NOT ILIKE ALL ('x'), a = ANY (VALUES (1))",
    "SELECT EXTRACT(ISODOW FROM a), EXTRACT('year' FROM a), TRIM(a || 'x' FROM b), SUBSTRING(a FOR 1), POSITION(a IN b) FROM t",
    "SELECT INTERVAL -1 DAY, INTERVAL (a + 1) HOUR, INTERVAL ? QUARTER, INTERVAL b.c DAY, TIMESTAMPTZ '2020-01-01' FROM t",
    "SELECT sum(a) OVER (ORDER BY b RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW), a AS 'the total' FROM t",
    "SELECT (a, b), f((a, b), c), CASE WHEN a THEN (a, b) END FROM t WHERE (a, b) BETWEEN (1, 2) AND (3, 4) AND (a, b) IS NULL",
    "SELECT a FROM t LIMIT ALL OFFSET 1",
    "SELECT a FROM t OFFSET 1 LIMIT 1",
    "SELECT a FROM t FOR NO KEY UPDATE OF t, s.u NOWAIT ;",
    "SELECT a FROM t FOR UPDATE OF t SKIP LOCKED FOR SHARE",
    "SELECT * FROM f(a) AS x (b INT, c TEXT), ((SELECT 1) UNION (SELECT 2)) AS y WHERE a IN ((SELECT 1) UNION SELECT 2)",
    "WITH x AS (INSERT INTO t VALUES (1) RETURNING a), y AS ((SELECT 1) UNION (SELECT 2)) (SELECT a FROM x) ORDER BY 1",
    "INSERT INTO t (a) (SELECT 1) ON CONFLICT ON CONSTRAINT c DO UPDATE SET a = 1",
    "INSERT INTO t (a) SELECT 1 FROM u ON CONFLICT DO NOTHING",
    "INSERT INTO t SELECT a FROM u GROUP BY a ORDER BY a LIMIT 1 ON CONFLICT (a) DO NOTHING",
    "UPDATE t x SET x.a = 1, b = DEFAULT FROM u WHERE x.a = u.b",
    "DELETE FROM t x USING u y WHERE x.a = y.a",
    "TRUNCATE s.t, u RESTART IDENTITY CASCADE",
    "CREATE TABLE d.s.t (a m NOT NULL, b s.m(3)[], c INT UNSIGNED, d ENUM('x', 'y'), CHECK (a > 0), e INT[][], "
    "f INT NOT NULL GENERATED ALWAYS AS IDENTITY COMMENT 'x', g INT DEFAULT nextval('s'), h TEXT DEFAULT 'x'::text, "
    "UNIQUE (a) DEFERRABLE INITIALLY DEFERRED)",
    "CREATE TABLE t AS (SELECT 1) UNION ALL (SELECT 2)",
    "CREATE OR REPLACE TEMPORARY VIEW s.v AS (SELECT 1)",
    "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS i ON s.t USING gin (a o DESC, lower(b), c) INCLUDE (d) WHERE a > 1",
    "CREATE INDEX ON s.t (a)",
    "DROP TABLE a, s.b CASCADE",
    "DROP MATERIALIZED VIEW IF EXISTS v",
    "DROP INDEX CONCURRENTLY i",
    "ALTER TABLE IF EXISTS ONLY t ADD COLUMN a INT NOT NULL AFTER b, ADD c INT FIRST, ADD COLUMN IF NOT EXISTS d INT",
    "ALTER TABLE t DROP COLUMN a CASCADE, DROP b",
    "ALTER TABLE t DROP CONSTRAINT IF EXISTS a, DROP CONSTRAINT b CASCADE",
    "ALTER TABLE t ALTER a TYPE VARCHAR(3) COLLATE x USING b::VARCHAR(3)",
    "ROLLBACK TO SAVEPOINT s",
    "COMMIT WORK",
]


def is_read(text: str) -> bool:
    """Whether sqlglot parses a statement."""
    sqlglot: Any = pytest.importorskip("sqlglot", reason="sqlglot is not installed (the extra 'test')")
    try:
        return not isinstance(sqlglot.parse_one(text), sqlglot.exp.Command)
    except sqlglot.errors.SqlglotError:
        return False


@pytest.mark.parametrize("text", OF_OTHERS)
def test_statements_of_other_databases(text: str) -> None:
    """sqlglot reads the statements that SQLite does not know, or does not prepare without values."""
    assert is_read(text)
    assert WALKER.follow(cd.grammars.SQL, text).is_accepting()


@pytest.mark.parametrize("letter", "abcdefghijklmnopqrstuvwxyz")
def test_names_may_begin_as_keywords_do(letter: str) -> None:
    """What follows a shorter keyword may begin as a longer one does: DISTINCT owner, beside DISTINCT ON."""
    for text in STATEMENTS + OF_OTHERS:
        renamed = re.sub(r"""('[^']*'|"[^"]*")|(?<![\w@:$])[a-z](?!\w)""", lambda m: m[1] or f"{letter}_{m[0]}", text)
        assert WALKER.follow(cd.grammars.SQL, renamed).is_accepting(), renamed


@pytest.mark.parametrize("text", STATEMENTS + OF_OTHERS)
def test_white_space_may_stand_before_every_sign(text: str) -> None:
    spread = re.sub(r"""('[^']*'|"[^"]*"|--.*|/\*.*\*/)|([(),;])""", lambda m: m[1] or f" \n{m[2]}", text)
    assert WALKER.follow(cd.grammars.SQL, spread + "\n").is_accepting()


BESIDE_SIGNS = [
    "SELECT*FROM t WHERE(a=1)AND(b=2)OR NOT(c)AND'x'<d AND\"a\"IS NOT NULL",
    "SELECT(a)x,'a'AS b,count(*)n FROM(SELECT*FROM t)AS s JOIN(SELECT 1 AS q)AS r ON(s.a=r.q)WHERE s.a IN(1,2)AND s.b LIKE'x'",
    "SELECT CASE WHEN(a)THEN'x'WHEN'y'THEN(b)ELSE'z'END,CASE(a)WHEN'x'THEN-1 END FROM t GROUP BY(a)HAVING(b)ORDER BY(a)DESC",
    "INSERT INTO k(a,b)VALUES(1,2)ON CONFLICT(a)DO UPDATE SET b='x'WHERE(b<3)RETURNING*",
    "WITH x(n)AS(SELECT'a'UNION SELECT(b)FROM t)SELECT sum(n)OVER(PARTITION BY(n)ORDER BY'x'),\"n\"FROM x",
    "UPDATE t SET a='x'FROM(SELECT 1 AS q)WHERE'x'BETWEEN'a'AND'b'",
    "SELECT a FROM t WHERE(a,b)IN(SELECT c,d FROM t)AND'a'LIKE'x'ESCAPE'!'AND EXISTS(SELECT 1)AND-a NOT LIKE(b)COLLATE NOCASE",
    "SELECT DISTINCT'x'FROM t WHERE a->'x'IS NOT DISTINCT FROM(b)",
]


@pytest.mark.parametrize("text", BESIDE_SIGNS)
def test_keywords_beside_signs(text: str, database: sqlite3.Connection) -> None:
    assert not fault(database, text)
    assert WALKER.takes(cd.grammars.SQL, text)


@pytest.mark.parametrize("spec", [cd.grammars.SQL, cd.grammars.sql({"t": ["a"]})], ids=["common", "restricted"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT $1",
        "SELECT DISTINCT $x FROM t",
        "SELECT a FROM t WHERE $1",
        "SELECT a FROM t WHERE (a) AND $x",
        "SELECT a FROM t WHERE a LIKE $1",
        "SELECT NOT $1",
        "SELECT CASE $1 WHEN 1 THEN $2 ELSE $3 END",
    ],
)
def test_a_dollar_is_no_sign(text: str, spec: cd.Spec) -> None:
    """SQLite and PostgreSQL read ``WHERE$1`` as one name."""
    assert WALKER.takes(spec, text)
    for glued in (text[: at.start()] + text[at.end() :] for at in re.finditer(r" (?=\$)", text)):
        assert not WALKER.takes(spec, glued)
    assert WALKER.takes(spec, text.replace(" $", "-$"))


_PIECES = re.compile(r"""'[^']*'|"[^"]*"|--.*\n|/\*.*?\*/|\s+|\w+|.""", re.DOTALL)
KEPT = re.compile("(?i)(create|alter|begin) |limit|escape|following|on conflict|set \\(")


def without_one_white_space(text: str) -> Iterator[tuple[str, bool]]:
    """The text without each white space in turn, and whether a sign stood beside it."""
    pieces = _PIECES.findall(text)
    for i in range(1, len(pieces) - 1):
        if pieces[i].isspace():
            beside_sign = not (pieces[i - 1][-1] + pieces[i + 1][0]).replace("_", "a").isalnum()
            yield "".join(pieces[:i] + pieces[i + 1 :]), beside_sign


@pytest.mark.parametrize("text", STATEMENTS)
def test_words_stand_right_beside_signs(text: str, database: sqlite3.Connection) -> None:
    """As SQLite has it: a keyword may stand right beside a sign, and beside a word or number with white space only."""
    for shorter, beside_sign in without_one_white_space(text):
        wrong = re.search("syntax error|unrecognized|incomplete", fault(database, shorter))
        if WALKER.takes(cd.grammars.SQL, shorter):
            assert not wrong or is_read(shorter), shorter
        else:
            assert wrong or not beside_sign or KEPT.search(text), shorter


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id::text FROM users",
        "SELECT id FROM users WHERE name ILIKE 'x'",
        "ALTER TABLE users ADD PRIMARY KEY (id)",
        "SELECT id FROM max(1)",
        "SELECT DATE '2024-01-01'",
        "(SELECT id FROM users)",
        "SELECT id FROM users FETCH FIRST 1 ROWS ONLY",
        "SELECT id FROM users FOR UPDATE",
        "INSERT INTO users VALUES (DEFAULT, 1)",
        "TRUNCATE TABLE users",
        "DROP TABLE users CASCADE",
        "SELECT id[1] FROM users",
    ],
)
def test_what_sqlite_lacks_is_not_in_the_grammar_of_a_schema(text: str) -> None:
    assert not WALKER.takes(cd.grammars.sql(SCHEMA), text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT x'', X'ce01' FROM users",
        "SELECT id FROM users WHERE name MATCH 'x' AND id NOT MATCH 'y'",
        "REPLACE INTO users (id) VALUES (1)",
        "CREATE TABLE t1 (c1 INT PRIMARY KEY, c2 INT GENERATED ALWAYS AS (c1 * 2) VIRTUAL) WITHOUT ROWID",
        "CREATE TABLE t1 (c1 INT PRIMARY KEY ON CONFLICT ABORT, c2 INT NOT NULL ON CONFLICT FAIL)",
    ],
)
def test_what_only_sqlite_has_is_in_the_grammar_of_a_schema(text: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)")
    assert not fault(connection, text) or "MATCH" in text
    assert WALKER.takes(cd.grammars.sql(SCHEMA), text) and not WALKER.takes(cd.grammars.SQL, text)
    assert not WALKER.takes(cd.grammars.sql(SCHEMA), "SELECT x'c' FROM users")


def test_walks_are_parsed() -> None:
    sqlglot: Any = pytest.importorskip("sqlglot", reason="sqlglot is not installed (the extra 'test')")
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    with pytest.raises(sqlglot.errors.ParseError):
        sqlglot.parse_one("SELECT a FROM")
    for text in WALKER.walks(cd.grammars.SQL, BEGINNINGS, cases(1000, 20)):
        try:
            parsed = sqlglot.parse_one(text)
        except sqlglot.errors.SqlglotError as error:
            raise AssertionError(text) from error
        assert not isinstance(parsed, sqlglot.exp.Command), f"not understood: {text}"


def test_walks_are_no_syntax_errors(database: sqlite3.Connection) -> None:
    """Walks may be wrong in their meaning, but never in their syntax, nor by a name that the schema lacks."""
    functions = ["lower", "count", "coalesce", "round", "max", "min"]
    spec = cd.grammars.sql(SCHEMA, aliases=["t1"], functions=functions)
    begins = ["", "select ", "select id from ", "insert into users ", "with t1 as (", "update users set "]
    begins += [
        "select*from(select(id)from users)where(id)in(1)",
        "insert into users(id)values(1)",
        "select'x'as t1 from orders where'x'",
    ]
    sound = 0
    for text in WALKER.walks(spec, begins, cases(400, 20)):
        found = fault(database, text)
        sound += not found
        assert not re.search("syntax error|unrecognized|incomplete", found), (found, text)
        named = re.match(r"no such (?:table|column|function): (.*)", found)
        assert named is None or all(known(name) for name in named[1].split(".")), (found, text)
    assert sound > at_least(50, 0)


def known(name: str) -> bool:
    """A name out of the lists, though not one that stands for something in that statement."""
    listed = ["t1", *SCHEMA, *(column for columns in SCHEMA.values() for column in columns)]
    return name.strip('"').lower() in (each.lower() for each in listed)


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("SELECT id, NAME FROM Users", True),
        ("SELECT users.name FROM users", True),
        ('SELECT t1."total price" FROM orders t1 JOIN users AS t2 ON t1.user_id = t2.id', True),
        ('SELECT "select" FROM orders', True),
        ('SELECT "we""ird"."a.b" FROM "we""ird"', True),
        ("WITH t1 AS (SELECT max(id) AS c1 FROM users) SELECT c1 FROM t1", True),
        ("UPDATE users SET name = 'x' WHERE id = 1", True),
        ("UPDATE users SET (id, name) = (1, 'x'), id=1", True),
        ("UPDATE users SET name = DEFAULT", False),
        ("UPDATE users SET name = (id) = (1, 2)", False),
        ("SELECT users.user_id FROM users", False),
        ("SELECT age FROM users", False),
        ("SELECT idx FROM users", False),
        ("SELECT id FROM userswhere id = 1", False),
        ("SELECT id FROM products", False),
        ("SELECT select FROM orders", False),
        ("SELECT id FROM users AS u", False),
        ("SELECT total price FROM orders", False),
        ("SELECT*FROM(SELECT id FROM users)AS t1 JOIN(users)ON(t1.id=users.id)WHERE(name='x')AND\"name\"<'y'OR'x'=name", True),
        ("SELECT(id)c1,count(*)FROM users GROUP BY(id)HAVING'x'LIKE'y'ORDER BY(id)DESC", True),
        ("INSERT INTO users(id)VALUES(1)ON CONFLICT(id)DO UPDATE SET name='x'WHERE(id=1)RETURNING*", True),
        ("SELECT idFROM users", False),
        ("SELECT(id)FROM usersWHERE id = 1", False),
        ("SELECT id FROM users WHEREid = 1", False),
        ("SELECT id FROM users WHERE id = 1AND name = 'x'", False),
    ],
)
def test_restricted(text: str, legal: bool) -> None:
    assert WALKER.takes(cd.grammars.sql(SCHEMA), text) == legal


def test_restricted_text_is_whole() -> None:
    """What is taken out leaves no line that ends inside a bracket: other readers of Lark refuse that."""
    lines = cd.grammars.sql(tables={"users": ["id"]}).grammar.splitlines()
    assert not [line for line in lines if line.lstrip().startswith((")", "]"))]
    assert not [line for line in lines if "extra_" in line and not line.startswith("//")]


CALLS = (
    "max(id)",
    "avg(id)",
    "abs(id)",
    "count(*)",
    "count(id)",
    "rank() OVER (ORDER BY id)",
    "row_number() OVER (ORDER BY id)",
    "trim(id)",
    "median(id)",
    "date()",
)


@pytest.mark.parametrize(
    ("functions", "allowed"),
    [
        (["max"], {"max(id)"}),
        (["Avg", "rank"], {"avg(id)", "rank() OVER (ORDER BY id)"}),
        (["count", "trim"], {"count(*)", "count(id)", "trim(id)"}),
        (["rank"], {"rank() OVER (ORDER BY id)"}),
        (["trim"], {"trim(id)"}),
        (["abs"], {"abs(id)"}),
        (["date", "median"], {"date()", "median(id)"}),
        (None, set(CALLS)),
    ],
)
def test_restricted_functions(functions: list[str] | None, allowed: set[str]) -> None:
    """The functions that are given, those whose arguments rules count among them, and no others."""
    spec = cd.grammars.sql({"users": ["id"]}, functions=functions)
    assert {call for call in CALLS if WALKER.takes(spec, f"SELECT {call} FROM users")} == allowed
    assert WALKER.takes(spec, "SELECT id FROM users")
    assert not WALKER.takes(spec, "SELECT abs(id, id) FROM users")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({}, "wrong tables: expected a mapping of table names to column names, not empty, found {} - at /tables"),
        (["users"], "wrong tables: expected a mapping"),
        ({"users": []}, "no names: expected at least one, found none - at /tables/users"),
        ({"users": "id"}, "wrong names: expected a list of names, found 'id' - at /tables/users"),
        ({"users": ["id", ""]}, "wrong name: expected text without control characters, found '' - at /tables/users"),
        ({"users": ["a\nb"]}, r"found 'a\\nb' - at /tables/users"),
        ({"users": [7]}, "found 7 - at /tables/users"),
        ({"": ["id"]}, "found '' - at /tables"),
    ],
)
def test_wrong_names(tables: Any, message: str) -> None:
    with pytest.raises(cd.GrammarError, match=message):
        cd.grammars.sql(tables)
