"""Front ends: from each kind of spec to rules over lexemes (:mod:`cdplugin.ir`)."""
