/* ---- the waterfall, languages, and the start ---- */
for (const svg of all("svg.key[data-part]")) svg.replaceWith(key(svg.dataset.part));
for (const b of all(".stackrow")) b.addEventListener("click", () => {
  all(".stackrow").forEach((other) => other.setAttribute("aria-pressed", String(other === b)));
  all(".fall[data-part]").forEach((one) => { one.hidden = one.dataset.part !== b.dataset.part; });
  on.part.add(b.dataset.part);
  view = null;
  bars();
  choose(-1);
});
for (const row of all(".row[data-kernel]")) row.addEventListener("click", () => {
  const again = row.getAttribute("aria-pressed") === "true";
  choose(again ? -1 : +row.dataset.kernel, again ? "" : row.dataset.finding);
  for (const old of all(".told")) old.remove();
  if (!again) row.after(detail(+row.dataset.kernel, row.dataset.finding));
});
/* what a block of the waterfall is: its kernel in full, its finding, the ways to both */
function detail(i, finding) {
  const box = h("div", { className: "told" }), one = finding && $(finding);
  if (i >= 0) box.append(h("p", { className: "k" }, K[i].kernel, " ", copier(K[i].kernel)), h("p", {}, words(K[i]).slice(1).join(tx("semicolon"))), ...lines(K[i], true));
  if (one) box.append(h("p", {}, h("b", {}, shownText(one.querySelector(".gain")) + " "), shownText(one.querySelector(".title"))), h("p", {}, shownText(one.querySelector(".step"))));
  else box.append(h("p", { className: "note" }, tx("nofinding")));
  const ways = h("p", {});
  if (one) ways.append(h("a", { href: "#" + finding }, tx("tofinding")), " ");
  if (i >= 0) ways.append(h("a", { href: K[i].flops > 0 || num(K[i].dram) ? "#roofline" : "#kernels" }, tx("toroof")));
  box.append(ways);
  return box;
}
const shownText = (e) => { const other = ROOT.lang === "en" ? "zh-CN" : "en"; const copy = e.cloneNode(true); all(`[lang="${other}"]`, copy).forEach((x) => x.remove()); return copy.textContent; };

function language(tag) {
  ROOT.lang = tag;
  all("[data-lang]").forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.lang === tag)));
  document.title = shownText(document.querySelector("h1"));
  all(".told").forEach((old) => old.remove());
  all("code.copy").forEach((code) => code.nextElementSibling ? code.nextElementSibling.replaceWith(copier(code.textContent)) : code.after(" ", copier(code.textContent)));
  $("csv").replaceChildren(button(tx("csv"), csv));
  controls(); draw(); bars(); strips(); table(); marked(); lineControls(); flameControls(); drawLine();
}
for (const b of all("[data-lang]")) b.addEventListener("click", () => { language(b.dataset.lang); remember(); });
const flat = K.length > 0 && !D.lower_bounds.length && !K.some((k) => k.flops > 0);
for (const e of [$("plotbox"), $("plot-help"), $("controls")]) e.hidden = flat || !K.length;
if (!K.some((k) => k.flops > 0 || num(k.dram))) $("roofline").hidden = true;
$("kernels").hidden = !K.length || D.whole;
for (const a of all("nav a")) a.hidden = $(a.getAttribute("href").slice(1)).hidden;
let seen = 0;
new ResizeObserver(() => { const w = document.body.clientWidth; if (w !== seen) { seen = w; draw(); drawLine(); } }).observe(document.body);
/* paper shows the facts and the frames as a table, which the screen folds */
const folded = all("#facts details, #flame details");
for (const [event, open] of [["beforeprint", true], ["afterprint", false]]) window.addEventListener(event, () => folded.forEach((one) => { one.open = open; }));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { draw(); drawLine(); });
/* the address holds what is picked, filtered and read in: who gets the link sees the same */
const FIRST_LANG = ROOT.lang, named = (k) => (k.impl ? k.impl + ": " : "") + k.short;
function remember() {
  const state = new URLSearchParams([...picked].map((i) => ["pick", named(K[i])]));
  if (query) state.set("find", query);
  if (ROOT.lang !== FIRST_LANG) state.set("lang", ROOT.lang);
  if (String(state) || location.hash.includes("=")) history.replaceState(null, "", "#" + state);
}
function recall() {
  if (!location.hash.includes("=")) return;
  const state = new URLSearchParams(location.hash.slice(1));
  language(state.get("lang") || FIRST_LANG);
  $("filter").value = query = state.get("find") || "";
  picked.clear();
  for (const k of K) if (state.getAll("pick").includes(named(k))) { picked.add(k.i); on.part.add(k.impl); }
  every = every || picked.size > 0;
  order(); bars(); follow();
  if (picked.size) $($("roofline").hidden ? "kernels" : "roofline").scrollIntoView();
}
language(FIRST_LANG);
recall();
window.addEventListener("hashchange", recall);
