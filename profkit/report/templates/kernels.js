/* ---- the table of kernels ---- */
const scaled = (unit, get) => {
  const v = K.map(get).filter(num).map(Math.abs), top = v.reduce((a, b) => Math.max(a, b), 0), s = STEPS[unit].find((x) => top >= x[0]) || STEPS[unit].at(-1);
  return { label: s[1], cell: (x) => num(x) ? dig(x / s[0]) : "-" };
};
const tm = scaled("s", (k) => k.time), fl = scaled("FLOP/s", (k) => k.flops), bw = scaled("B/s", (k) => k.dram);
/* [head, value, how it is shown (nothing: text), class, what is added to it]; "mid" leaves where the screen is narrow, "far" on a phone */
const COLUMNS = () => [
  [D.ranged ? tx("range") : tx("impl"), (k) => k.impl, null, "l own"], [ty("kernel"), (k) => k.short, null, "name l"],
  [ty("launches"), (k) => k.launches, whole, "far mid"], [ty("share"), (k) => k.share, pct],
  [`${ty("time")} [${tm.label}]`, (k) => k.time, tm.cell], [fl.label, (k) => k.flops, fl.cell, "far"],
  [`DRAM [${bw.label}]`, (k) => k.dram, bw.cell, "far mid"], [tx("dramf"), (k) => k.dramf, pct, "far"],
  ["FLOP/B", (k) => k.ai.dram, dig, "far mid"], [tx("frac"), (k) => k.frac, pct, "far", (k) => num(k.frac) && !k.at ? tx("inroof", mine(k.roof)) : ""], [tx("occ"), (k) => k.occ, pct, "far"],
  [tx("boundby"), (k) => mine(k.bound), null, "l"],
].filter(([, get, fmt], i) => i < 2 ? i || new Set(K.map((k) => k.impl)).size > 1 : K.some((k) => fmt ? num(get(k)) && get(k) !== 0 : get(k)));
let COLS = [], rows = [], sorted = { c: -1, dir: -1 };
function table() {
  COLS = COLUMNS();
  const tr = h("tr");
  COLS.forEach((c, i) => {
    const b = button(c[0], () => { sorted = { c: i, dir: sorted.c === i ? -sorted.dir : c[2] ? -1 : 1 }; order(); }, { className: "" });
    tr.append(h("th", { scope: "col", className: c[3] || "" }, b));
  });
  document.querySelector("#table thead").replaceChildren(tr);
  rows = K.map((k) => h("tr", {}, ...COLS.map(([, get, fmt, cls, tail]) => {
    const td = h("td", { className: cls || "" });
    if (cls === "name l") {
      const b = button("", () => pick(k.i), { className: "pick", title: k.kernel, "aria-pressed": "false" });
      b.append(h("span", {}, k.short), ...(k.kernel !== k.short ? [h("small", { className: "full" }, k.kernel)] : []));
      if (COLS[0][3] === "l own") td.dataset.whose = k.impl;
      td.append(b, ...lines(k));
    } else if (cls === "l own") td.append(key(k.impl), h("span", {}, k.impl));
    else td.textContent = (fmt ? fmt(get(k)) : get(k) || "-") + (tail ? tail(k) : "");
    return td;
  })));
  order();
}
/* the source lines that hold a kernel up, where they were recorded */
const lines = (k, open = false) => {
  if (!k.lines) return [];
  const list = h("ol", {}, ...k.lines.map((l) => h("li", {}, h("code", {}, mine(l)))));
  return [h("details", { className: "src", open }, h("summary", {}, tx("lines", k.lines.length)), list)];
};
function order() {
  const [, get, shown_] = COLS[sorted.c] || [], text = !shown_;
  const list = K.map((k) => k.i).sort((a, b) => {
    if (!get) return rank(K[b]) - rank(K[a]) || (K[b].time || 0) - (K[a].time || 0);  // the best first, before a head is pressed
    const x = get(K[a]), y = get(K[b]);
    if (text) return sorted.dir * String(x || "").localeCompare(String(y || "")) || a - b;
    if (!num(x) || !num(y)) return num(x) ? -1 : num(y) ? 1 : a - b;
    return sorted.dir * (x - y) || a - b;
  });
  const shown = list.filter((i) => !query || match(K[i]));
  fill(shown);
  all("#table th").forEach((th, i) => { if (i === sorted.c) th.setAttribute("aria-sort", sorted.dir > 0 ? "ascending" : "descending"); else th.removeAttribute("aria-sort"); });
  $("count").textContent = ty("count", shown.length, K.length);
}
/* the kernels that pass the filter, in SI units */
function csv() {
  const heads = { implementation: (k) => k.impl, kernel: (k) => k.kernel, launches: (k) => k.launches, share: (k) => k.share, time: (k) => k.time, achieved_flops: (k) => k.flops, dram_bandwidth: (k) => k.dram, intensity_dram: (k) => k.ai.dram, roof: (k) => k.of, roof_share: (k) => k.frac, occupancy: (k) => k.occ, bound_by: (k) => k.bound[0] };
  const cell = (x) => /[",\n]/.test(x ?? "") ? `"${String(x).replaceAll('"', '""')}"` : x ?? "";
  const text = [Object.keys(heads), ...K.filter((k) => !query || match(k)).map((k) => Object.values(heads).map((get) => get(k)))].map((row) => row.map(cell).join(",")).join("\n") + "\n";
  download(new Blob([text], { type: "text/csv" }), "kernels.csv");
}
/* thousands of rows are none that somebody reads: the first, the others on request */
const FIRST = 60;
let every = false;
function fill(shown) {
  document.querySelector("#table tbody").replaceChildren(...(every ? shown : shown.slice(0, FIRST)).map((i) => rows[i]));
  $("every").hidden = every || shown.length <= FIRST;
  $("every").textContent = tx("every", shown.length);
  ready();
}
$("every").addEventListener("click", () => { every = true; order(); });
function ready() { if (ROOT.dataset.ready) return; performance.mark("ready"); ROOT.dataset.ready = "1"; }
function marked() {
  rows.forEach((r, i) => { r.classList.toggle("picked", picked.has(i)); r.querySelector(".pick").setAttribute("aria-pressed", String(picked.has(i))); });
  all("#strip .bar").forEach((b) => b.setAttribute("aria-pressed", String(picked.has(+b.dataset.k))));
}
$("filter").addEventListener("input", (e) => { query = e.target.value.trim().toLowerCase(); order(); draw(); remember(); });
