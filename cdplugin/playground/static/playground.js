// The playground's page. Every text is put in as text (textContent), never as HTML; requests go to this server only.
"use strict";

const EXAMPLES = {
  "JSON Schema: a person": ["json-schema", JSON.stringify({
    type: "object",
    properties: {
      name: { type: "string" },
      age: { type: "integer", minimum: 18 },
      skills: { type: "array", items: { enum: ["chess", "go", "running"] } },
    },
    required: ["name", "age"],
    additionalProperties: false,
  }, null, 2), '{"name": "Ada", "age": 36, "skills": ["chess", "', "Describe a person as JSON."],
  "Lark: arithmetic": ["lark", 'start: sum\nsum: product (("+" | "-") product)*\nproduct: atom (("*" | "/") atom)*\natom: NUMBER | "(" sum ")"\nNUMBER: /[0-9]+/\n%ignore / +/\n', "(1 + 2) * 3", "What is six times seven? Answer with a formula."],
  "GBNF: a list": ["gbnf", 'root ::= item+\nitem ::= "- " [^\\n]+ "\\n"\n', "- bread\n- ", "List three colours."],
  "Regular expression: a date": ["regex", "(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])", "2026-1", "When did the first man walk on the moon?"],
  "Choice": ["choice", "positive\nneutral\nnegative\n", "n", "Is 'what a lovely day' positive or negative?"],
};
const MOST_SHOWN = 2000; // tokens that are drawn
const by = (id) => document.getElementById(id);
const fields = { kind: by("kind"), spec: by("spec"), text: by("text"), prompt: by("prompt") };
let newest = 0; // the number of the last request: older answers are dropped
let pending = null;
let last = null; // the last answer to a step

async function ask(path, body, signal) {
  const options = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
  const answer = await fetch(path, options);
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.refused || answer.statusText);
  return value;
}

function question() {
  return { kind: fields.kind.value, spec: fields.spec.value, text: fields.text.value };
}

function element(tag, text, kind) {
  const out = document.createElement(tag);
  if (text !== undefined) out.textContent = text;
  if (kind) out.className = kind;
  return out;
}

function show(id, text) {
  by(id).textContent = text || "";
  by(id).hidden = !text;
}

const visible = (text) => text.replaceAll("\n", "⏎\n").replaceAll("\t", "⇥");

async function step() {
  const number = ++newest;
  if (pending) pending.abort();
  pending = new AbortController();
  const began = performance.now();
  try {
    const answer = await ask("/api/step", question(), pending.signal);
    if (number === newest) draw(answer);
  } catch (error) {
    if (error.name === "AbortError" || number !== newest) return;
    draw({ error: { message: String(error.message || error) } });
  }
  if (number === newest) {
    document.body.dataset.step = String(number); // what tests wait for
    document.body.dataset.took = String(performance.now() - began);
  }
}

function draw(answer) {
  last = answer;
  const error = answer.error;
  show("spec-error", error && [
    error.location ? `${error.message} (${error.location})` : error.message, error.keyword && `keyword: ${error.keyword}`,
    error.expected && `expected: ${error.expected}`, error.found && `found: ${error.found}`, error.context].filter(Boolean).join("\n"));
  show("relaxed", answer.relaxed && answer.relaxed.length ? "Not enforced: " + answer.relaxed.map((one) => one.join(" at ")).join(", ") : "");
  drawText(answer);
  drawNext(answer);
}

function drawText(answer) {
  const tokens = answer.tokens || [];
  const followed = answer.followed || 0;
  by("tokens").replaceChildren(...tokens.slice(0, MOST_SHOWN).map((token, i) =>
    element("span", visible(token), i < followed ? "token" : i === followed && answer.refused ? "token bad" : "token rest")));
  if (tokens.length > MOST_SHOWN) by("tokens").append(element("span", ` … ${tokens.length - MOST_SHOWN} more tokens`, "dim"));
  show("refusal", answer.refused ? answer.refused.reason : answer.stopped);
  const verdict = by("verdict");
  const refused = Boolean(answer.refused || answer.stopped || answer.error);
  verdict.className = refused ? "bad" : answer.may_end ? "good" : "open";
  verdict.textContent = answer.error ? "no grammar" : answer.refused ? `refused at token ${followed}` : answer.stopped ? "stopped"
    : answer.may_end ? "complete" : "to be continued";
}

function drawNext(answer) {
  by("count").textContent = answer.allowed === undefined ? "" : `${answer.allowed.toLocaleString("en")} tokens${answer.refused ? " before the refused one" : ""}`;
  by("groups").replaceChildren(...(answer.groups || []).map((group) => {
    const row = element("div", undefined, "group");
    row.append(element("span", `${group.name}: ${group.count.toLocaleString("en")}`, "dim"));
    const list = element("div");
    for (const token of group.tokens) list.append(element("span", visible(token), "chip"));
    if (group.count > group.tokens.length) list.append(element("span", "…", "dim"));
    row.append(list);
    return row;
  }));
  by("places").tBodies[0].replaceChildren(...(answer.places || []).map((place) => {
    const row = element("tr");
    const where = place.where.map((one) => (one.startsWith("line ") ? one : "#" + one)).join(" or ");
    row.append(element("td", place.lexeme), element("td", place.rule), element("td", where));
    return row;
  }));
  by("expected").textContent = answer.expected ? `Expected ${answer.expected}.` : "";
  const clean = !answer.refused && !answer.stopped && !answer.error;
  by("forced").disabled = !(clean && answer.forced && answer.forced.text);
  by("forced").title = by("forced").disabled ? "" : answer.forced.text;
  by("finish").disabled = !(clean && answer.ending && answer.ending.text);
  by("finish").title = by("finish").disabled ? "" : answer.ending.text;
}

function insert(text) {
  fields.text.value += text;
  changed();
  fields.text.focus();
}

function changed() {
  remember();
  step();
}

// The link: a fragment, which browsers do not send to servers.
function remember() {
  const state = Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.value]));
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  history.replaceState(null, "", "#v1." + btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""));
}

function recall() {
  const found = /^#v1\.([\w-]+)$/.exec(location.hash);
  if (!found) return false;
  try {
    const bytes = Uint8Array.from(atob(found[1].replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const state = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    for (const [name, field] of Object.entries(fields)) if (typeof state[name] === "string") field.value = state[name];
    return true;
  } catch {
    return false;
  }
}

function take(name) {
  [fields.kind.value, fields.spec.value, fields.text.value, fields.prompt.value] = EXAMPLES[name];
}

by("example").append(element("option", "choose …"), ...Object.keys(EXAMPLES).map((name) => element("option", name)));
by("example").addEventListener("change", () => {
  const name = by("example").value;
  if (name in EXAMPLES) {
    take(name);
    changed();
  }
});
for (const name of ["kind", "spec", "text"]) fields[name].addEventListener("input", changed);
fields.prompt.addEventListener("input", remember);
window.addEventListener("hashchange", () => { if (recall()) step(); });
by("forced").addEventListener("click", () => insert(last.forced.text));
by("finish").addEventListener("click", () => insert(last.ending.text));
by("link").addEventListener("click", async () => {
  remember();
  try {
    await navigator.clipboard.writeText(location.href);
    by("link").textContent = "Copied";
  } catch {
    by("link").textContent = "The address bar has it";
  }
  setTimeout(() => { by("link").textContent = "Copy link"; }, 1500);
});
by("why").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const answer = await ask("/api/why", { ...question(), what: by("what").value });
    show("reason", answer.error ? answer.error.message : answer.allowed ? `allowed: ${answer.tokens.join(" · ")}` : answer.reason);
  } catch (error) {
    show("reason", String(error.message || error));
  }
});
by("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  by("answer").disabled = true;
  by("model-state").textContent = "answering …";
  try {
    const answer = await ask("/api/answer", { ...question(), prompt: fields.prompt.value });
    if (answer.error) throw new Error(answer.error.message);
    drawAnswer(answer);
  } catch (error) {
    by("model-state").textContent = String(error.message || error);
  }
  by("answer").disabled = false;
});

function drawAnswer(answer) {
  const steps = answer.steps.filter((one) => one.token !== null);
  const other = (one) => one.preference && !one.preference.candidates[0].allowed;
  by("model-state").textContent = `${steps.length} tokens; at ${steps.filter(other).length} of them the model wanted one that was not allowed`;
  by("answer-tokens").replaceChildren(...steps.map((one) => {
    const span = element("span", visible(one.text || one.label), other(one) ? "token changed" : "token");
    return span;
  }));
  by("wanted").tBodies[0].replaceChildren(...steps.map((one, i) => [one, i]).filter(([one]) => other(one)).map(([one, i]) => {
    const row = element("tr");
    const wanted = one.preference.candidates[0];
    row.append(element("td", String(i)), element("td", one.label), element("td", `${wanted.label} (${(100 * wanted.probability).toFixed(1)}%)`),
      element("td", `${(100 * one.preference.removed).toFixed(1)}%`), element("td", one.preference.reason));
    return row;
  }));
  by("wanted").hidden = by("wanted").tBodies[0].rows.length === 0;
}

async function about() {
  const info = await ask("/api/info");
  by("about").textContent = `tokenizer: ${info.tokenizer} (${info.size.toLocaleString("en")} tokens)`;
  if (!fields.kind.options.length) fields.kind.append(...info.kinds.map((kind) => element("option", kind)));
  by("model").hidden = !info.model;
  if (info.model) {
    by("model-state").textContent = info.model.state === "ready" ? `${info.model.name} is ready` : `${info.model.name}: ${info.model.state}`;
    by("answer").disabled = info.model.state !== "ready";
    if (info.model.state === "loading") setTimeout(about, 1000);
  }
}

about().then(() => {
  if (!recall()) take(Object.keys(EXAMPLES)[0]);
  step();
}).catch((error) => show("spec-error", String(error.message || error)));
