/* ---- the flame graph: the time in view by what called it: GPU time of the kernels below a frame, else a thread's own time ---- */
const flame = $("flame-graph"), TALL = 21, KERNEL = 4;
let roots = null, trees = [], zoomed = null, sought = "", flamed = "", waiting = 0;
/* numbered ranges, as of steps, are one frame where there are several */
const alike = (text) => text.replace(/#?\d+/g, "#");
TLS.forEach((T) => {
  const names = new Set([...T.host.whats.filter(([kind]) => kind === RANGE).map(([, name]) => name), ...T.paths.flatMap((path) => path.split("/"))]), count = {};
  for (const name of names) count[alike(name)] = (count[alike(name)] || 0) + 1;
  T.frame = ([kind, name]) => [kind, kind === RANGE ? (count[alike(name)] > 1 ? alike(name) : name) : name.replace(/#\d+$/, "#")];
  T.trails = [];
});
const leaf = (up, kind, name) => ({ up, kind, name, kids: new Map(), total: 0, own: 0, count: 0 });
const kid = (at, [kind, name]) => { const k = kind + name; if (!at.kids.has(k)) at.kids.set(k, leaf(at, kind, name)); return at.kids.get(k); };
/* frames round a launch: events of its thread, else its ranges; its operator, itself */
function trail(T, i) {
  if (T.trails[i]) return T.trails[i];
  const H = T.host, spans_ = T.late[i] >= 0 && T.thread[i] >= 0 ? around(T, T.thread[i], T.at[i] - T.late[i]).map((n) => H.whats[H.what[n]]).filter(([kind]) => kind !== CALL) : [];
  const path = pathOf(i, T), op = T.whats[T.what[i]][3], ranged = spans_.some(([kind]) => kind === RANGE) || !path ? [] : path.split("/").map((name) => [RANGE, name]);
  const asked = !op || spans_.some(([, name]) => name === op) ? [] : [[1, op]];
  return (T.trails[i] = [...[...ranged, ...spans_, ...asked].map(T.frame), [KERNEL, T.names[T.kernel[i]]]]);
}
function grown(T) {
  const top = leaf(null, RANGE, ""), H = T.host, [from, to] = preset && preset(T).length ? preset(T) : span;
  const inside = (t, d) => Math.max(0, Math.min(to, t + d) - Math.max(from, t));
  for (let i = below(T.reach, from), last = below(T.at, to); i < last; i++) {
    const time = inside(T.at[i], T.length[i]);
    if (!time) continue;
    let at = top;
    for (const frame of [null, ...trail(T, i)]) { at = frame ? kid(at, frame) : at; at.total += time; at.count++; }
    at.own += time;
  }
  if (T.at.length) return top;
  const nodes = [];
  H.at.forEach((t, i) => {
    const time = inside(t, H.length[i]), up = H.up[i] < 0 ? top : nodes[H.up[i]], own = nodes[i] = kid(up, T.frame(H.whats[H.what[i]]));
    if (!time) return;
    own.total += time; own.own += time; own.count++;
    if (up === top) { top.total += time; top.count++; } else up.own -= time;
  });
  return top;
}
const heavy = (node) => [...node.kids.values()].filter((one) => one.total > 0).sort((a, b) => b.total - a.total);
const lineage = (node) => node ? [...lineage(node.up), node] : [];
const told_ = (node) => {
  const facts = [node.name || tx("flame_all"), say(node.total * SEC, "s"), pct(node.total / roots.total), say(node.own * SEC, "s"), node.count];
  const others = TLS.map((T, n) => T === TL ? "" : tx("flame_other", say(twin(trees[n], node).total * SEC, "s"), T.label));
  return (TL.at.length ? tx("flame_gpu", ...facts) : tx("flame_cpu", ...facts)) + others.join("");
};
/* the frame of another run or moment at the same place, empty where there is none */
const NONE = leaf(null, RANGE, "");
const twin = (root, node) => lineage(node).slice(1).reduce((at, one) => at.kids.get(one.kind + one.name) || NONE, root);
const hit = (node) => sought && node.name.toLowerCase().includes(sought.toLowerCase());
/* what is drawn follows what the timeline shows; a zoom stays where its frames are still there */
function drawFlame() {
  const now = [TLS.indexOf(TL), ...span, ROOT.lang, flame.clientWidth].join();
  if (now === flamed) return;
  flamed = now;
  trees = TLS.map(grown);
  roots = trees[TLS.indexOf(TL)];
  const same = zoomed ? twin(roots, zoomed) : roots;
  zoomed = same.total ? same : roots;
  frames();
  outlined();
}
function frames() {
  const width = flame.clientWidth, list = [], above = lineage(zoomed).slice(0, -1);
  let thin = 0, found = 0;
  const lay = (node, x, w, level, caught) => {
    if (w * width < 2) { thin++; return; }
    list.push([node, x, w, level]);
    const here = hit(node);
    if (here && !caught) found += node.total;
    let at = x;
    for (const one of heavy(node)) { const part = w * one.total / node.total; lay(one, at, part, level + 1, caught || here); at += part; }
  };
  /* runs that are switched between share one scale: the longest of them fills the width */
  const full = zoomed.total / Math.max(...trees.map((root) => twin(root, zoomed).total)) || 1;
  above.forEach((node, level) => list.push([node, 0, full, level]));
  lay(zoomed, 0, full, above.length, above.some(hit));
  flame.replaceChildren(...list.map(([node, x, w, level]) => {
    const f = h("div", { role: "treeitem", className: `f f${node.kind}${sought ? hit(node) ? " hit" : " dim" : ""}`, tabIndex: node === zoomed ? 0 : -1, "aria-level": String(level + 1), "aria-label": told_(node) }, node.name || tx("flame_all"));
    f.style.cssText = `left:${x * 100}%;width:${w * 100}%;top:${level * TALL}px` + (node.kind === KERNEL ? `;--f:var(${tint(node.name)})` : "");
    f.node = node;
    node.f = f;
    return f;
  }));
  flame.style.height = Math.max(...list.map(([, , , level]) => level + 1)) * TALL + "px";
  $("flame-said").textContent = sought ? tx("flame_found", sought, pct(roots.total ? found / zoomed.total : 0)) : told_(zoomed);
  $("flame-note").textContent = thin ? tx("flame_thin", thin) : "";
}
/* the same as lines of text, for paper and for readers of screens: frames of 1 % and more, those that another calls below it; a chain of frames that call nothing else is one line */
function outlined() {
  const rows = [], only = (node) => { const [one] = heavy(node); return one && one.total === node.total ? one : null; };
  const walk = (node, level) => {
    for (const one of heavy(node)) {
      if (one.total < .01 * roots.total || rows.length >= 60) return;
      let last = one, links = 0;
      while (only(last)) { last = only(last); links++; }
      rows.push([last, level, one.name + (links ? (links > 1 ? " … " : " / ") + last.name : "")]);
      walk(last, level + 1);
    }
  };
  walk(roots, 0);
  const heads = [tx("flame_frame"), tx("time"), tx("flame_share"), tx("flame_own"), TL.at.length ? tx("launches") : tx("flame_calls")];
  $("flame-table").replaceChildren(
    h("thead", {}, h("tr", {}, ...heads.map((word) => h("th", { scope: "col" }, word)))),
    h("tbody", {}, ...rows.map(([one, level, text]) => {
      const name = h("td", { className: "l" }, text);
      name.style.paddingLeft = `min(${6 + level * 12}px,30vw)`;
      return h("tr", {}, name, ...[say(one.total * SEC, "s"), pct(one.total / roots.total), say(one.own * SEC, "s"), String(one.count)].map((cell) => h("td", {}, cell)));
    })),
  );
}
function zoomTo(node) {
  zoomed = node;
  frames();
  zoomed.f.focus({ preventScroll: true });
}
/* after the timeline has come to rest */
function followed() {
  if (!TL || $("flame").hidden) return;
  clearTimeout(waiting);
  waiting = setTimeout(drawFlame, flamed ? 150 : 0);
}
function flameControls() {
  if (!TL) return;
  const search = h("input", { type: "search", value: sought, placeholder: tx("flame_search"), "aria-label": tx("flame_search") });
  search.addEventListener("input", () => { sought = search.value; frames(); });
  $("flame-controls").replaceChildren(search, button(tx("all"), () => { if (zoomed) zoomTo(roots); }));
  $("flame-what").textContent = TL.at.length ? tx("flame_what_gpu") : tx("flame_what_cpu");
}
if (TL) {
  $("flame").hidden = !TLS.some((T) => T.host.whats.some(([kind]) => kind !== CALL) || T.paths.some(Boolean) || T.whats.some(([, , , op]) => op));
  const over_ = (e) => { const f = e.target.closest(".f"); if (f) $("flame-said").textContent = told_(f.node); };
  for (const event of ["pointerover", "focusin"]) flame.addEventListener(event, over_);
  flame.addEventListener("click", (e) => { const f = e.target.closest(".f"); if (f) zoomTo(f.node); });
  flame.addEventListener("keydown", (e) => {
    const node = document.activeElement.node;
    if (!node || e.ctrlKey || e.metaKey || e.altKey) return;
    const beside = (step) => { const all_ = node.up ? heavy(node.up) : [node]; return all_[all_.indexOf(node) + step]; };
    const to = { ArrowUp: node.up, ArrowDown: heavy(node)[0], ArrowLeft: beside(-1), ArrowRight: beside(1) }[e.key];
    if (to && to.f && to.f.isConnected) to.f.focus();
    else if (e.key === "Enter" || e.key === " ") zoomTo(node);
    else if (e.key === "Escape" || e.key === "0") zoomTo(roots);
    else if (!e.key.startsWith("Arrow")) return;
    e.preventDefault();
  });
}
