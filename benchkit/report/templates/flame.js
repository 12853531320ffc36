"use strict";
// Draws the call tree in the data of the page: the calls that are wide enough to be seen, again after every zoom.

const LEAST_PX = 0.5;
const TEXT_PX = 24;
const STEPS = [0.002, 0.01, 0.03]; // shares from which a difference has the next stronger colour

const data = JSON.parse(document.getElementById("data").textContent);
const graph = document.getElementById("graph");
const detail = document.getElementById("detail");
const search = document.getElementById("search");
const found = document.getElementById("found");

/** Columns of the nodes, callers before those they call. */
class Tree {
  constructor({ nodes, frames, compared }) {
    const width = compared ? 4 : 3;
    this.count = nodes.length / width;
    this.frames = frames;
    this.compared = compared;
    const column = (offset) => Float64Array.from({ length: this.count }, (_, i) => nodes[i * width + offset]);
    [this.frame, this.depth, this.value] = [0, 1, 2].map(column);
    this.base = compared ? column(3) : null;
    this.parent = new Int32Array(this.count).fill(-1);
    this.end = new Int32Array(this.count).fill(this.count); // where the calls below a node end
    this.self = Float64Array.from(this.value);
    const open = [];
    for (let i = 0; i < this.count; i++) {
      while (open.length > this.depth[i]) this.end[open.pop()] = i;
      if (open.length) {
        this.parent[i] = open[open.length - 1];
        this.self[this.parent[i]] -= this.value[i];
      }
      open.push(i);
    }
    this.measure(this.value);
  }

  /** Lay the nodes out side by side, as wide as these numbers. */
  measure(widths) {
    this.width = widths;
    this.left = new Float64Array(this.count);
    const next = new Float64Array(this.count);
    for (let i = 0; i < this.count; i++) {
      const parent = this.parent[i];
      this.left[i] = parent < 0 ? 0 : next[parent];
      next[i] = this.left[i];
      if (parent >= 0) next[parent] += widths[i];
    }
  }

  label(i) {
    return this.frames[this.frame[i]][0];
  }

  share(i) {
    return this.value[0] ? this.value[i] / this.value[0] : 0;
  }

  shareBefore(i) {
    return this.base[0] ? this.base[i] / this.base[0] : 0;
  }

  change(i) {
    return this.share(i) - this.shareBefore(i);
  }

  tone(i) {
    if (!this.compared) return this.frames[this.frame[i]][2];
    const change = this.change(i);
    const strength = STEPS.filter((step) => Math.abs(change) >= step).length;
    if (Math.abs(change) < STEPS[0] / 4) return "pack-all";
    return `${change > 0 ? "more" : "less"}-${strength + 1}`;
  }

  callers(i) {
    const way = [];
    for (let at = this.parent[i]; at >= 0; at = this.parent[at]) way.push(at);
    return way;
  }

  inside(i, above) {
    return above <= i && i < this.end[above];
  }
}

const tree = new Tree(data);
let zoomed = 0;
let hits = new Set();
let current = 0;
let drawn = new Map();

function percent(share) {
  return `${(share * 100).toFixed(share < 0.001 ? 3 : 1)} %`;
}

function points(change) {
  return `${change < 0 ? "\u2212" : "+"}${(Math.abs(change) * 100).toFixed(2)} points`;
}

function amount(value) {
  if (data.per_second === null) return `${value.toLocaleString("en")} ${data.unit}`;
  const seconds = value / data.per_second;
  const [factor, unit] = seconds >= 1 ? [1, "s"] : seconds >= 1e-3 ? [1e3, "ms"] : [1e6, "\u00b5s"];
  return `${Number((seconds * factor).toPrecision(3)).toLocaleString("en")} ${unit}`;
}

function sentence(i) {
  const parts = [`${amount(tree.value[i])}, ${percent(tree.share(i))} of all`];
  if (zoomed && tree.inside(i, zoomed) && tree.value[zoomed]) {
    parts.push(`${percent(tree.value[i] / tree.value[zoomed])} of what is zoomed to`);
  }
  if (tree.compared) parts.push(`${percent(tree.shareBefore(i))} before: ${points(tree.change(i))}`);
  parts.push(`itself ${amount(tree.self[i])}`);
  const where = tree.frames[tree.frame[i]][1];
  return parts.join("; ") + (where ? ` \u00b7 ${where}` : "");
}

function explain(i) {
  const name = document.createElement("b");
  name.textContent = tree.label(i);
  detail.replaceChildren(name, document.createElement("br"), sentence(i));
}

function box(i, left, width, row) {
  const made = document.createElement("div");
  made.className = `frame ${tree.tone(i)}`;
  made.classList.toggle("narrow", width < TEXT_PX);
  made.classList.toggle("above", i < zoomed && row < tree.depth[zoomed]);
  made.classList.toggle("hit", hits.has(tree.frame[i]));
  made.dataset.node = i;
  made.setAttribute("role", "treeitem");
  made.setAttribute("aria-level", tree.depth[i] + 1);
  made.setAttribute("aria-label", `${tree.label(i)}, ${percent(tree.share(i))}`);
  made.tabIndex = -1;
  made.style.left = `${left}px`;
  made.style.width = `${Math.max(width - 0.5, 0.5)}px`;
  made.style.top = `calc(${row} * 1.1875rem)`;
  if (width >= TEXT_PX) made.textContent = tree.label(i);
  return made;
}

function draw() {
  const room = graph.clientWidth;
  const scale = tree.width[zoomed] ? room / tree.width[zoomed] : 0;
  const boxes = new Map();
  let deepest = tree.depth[zoomed];
  for (const i of tree.callers(zoomed)) boxes.set(i, box(i, 0, room, tree.depth[i]));
  for (let i = zoomed; i < tree.end[zoomed]; ) {
    const width = i === zoomed ? room : tree.width[i] * scale;
    if (width < LEAST_PX) {
      i = tree.end[i];
      continue;
    }
    boxes.set(i, box(i, (tree.left[i] - tree.left[zoomed]) * scale, width, tree.depth[i]));
    deepest = Math.max(deepest, tree.depth[i]);
    i++;
  }
  drawn = boxes;
  if (!drawn.has(current)) current = zoomed;
  drawn.get(current).tabIndex = 0;
  graph.style.height = `calc(${deepest + 1} * 1.1875rem)`;
  graph.replaceChildren(...drawn.values());
}

function select(i, focus = true) {
  if (!drawn.has(i)) return;
  drawn.get(current).tabIndex = -1;
  current = i;
  drawn.get(i).tabIndex = 0;
  if (focus) drawn.get(i).focus({ preventScroll: false });
  explain(i);
}

function zoom(i) {
  zoomed = i;
  current = i;
  draw();
  select(i);
}

/** The next drawn node in the same row, to the right (1) or left (-1). */
function neighbour(i, direction) {
  const row = Array.from(drawn.keys()).filter((other) => tree.depth[other] === tree.depth[i]);
  row.sort((a, b) => a - b);
  return row[row.indexOf(i) + direction];
}

function widestCall(i) {
  let widest;
  for (let call = i + 1; call < tree.end[i]; call = tree.end[call]) {
    if (drawn.has(call) && (widest === undefined || tree.width[call] > tree.width[widest])) widest = call;
  }
  return widest;
}

const KEYS = {
  ArrowUp: () => tree.parent[current],
  ArrowDown: () => widestCall(current),
  ArrowLeft: () => neighbour(current, -1),
  ArrowRight: () => neighbour(current, 1),
  Home: () => 0,
};

function find(text) {
  const wanted = text.trim().toLowerCase();
  hits = new Set();
  if (wanted) data.frames.forEach(([label], place) => label.toLowerCase().includes(wanted) && hits.add(place));
  let matched = 0;
  for (let i = 0; hits.size && i < tree.count; ) {
    if (hits.has(tree.frame[i])) {
      matched += tree.width[i];
      i = tree.end[i]; // calls below a match are in it already
    } else {
      i++;
    }
  }
  found.textContent = wanted
    ? `${hits.size} ${hits.size === 1 ? "function" : "functions"}, ${percent(tree.width[0] ? matched / tree.width[0] : 0)} of all`
    : "";
  draw();
}

function nextHit() {
  for (let step = 1; hits.size && step <= tree.count; step++) {
    const i = (current + step) % tree.count;
    if (!hits.has(tree.frame[i]) || !tree.width[i]) continue;
    if (!drawn.has(i)) {
      zoomed = i;
      draw();
    }
    select(i);
    return;
  }
}

graph.addEventListener("click", (event) => {
  const frame = event.target.closest(".frame");
  if (frame) zoom(Number(frame.dataset.node));
});
graph.addEventListener("mouseover", (event) => {
  const frame = event.target.closest(".frame");
  if (frame) explain(Number(frame.dataset.node));
});
graph.addEventListener("mouseleave", () => explain(current));
graph.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" || event.key === " ") zoom(current);
  else if (event.key === "Escape") zoom(Math.max(tree.parent[zoomed], 0));
  else if (event.key in KEYS) {
    const target = KEYS[event.key]();
    if (target !== undefined && target >= 0) select(target);
  } else return;
  event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target === search) return;
  search.focus();
  event.preventDefault();
});
search.addEventListener("input", () => find(search.value));
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") nextHit();
});
document.getElementById("out").addEventListener("click", () => zoom(0));
for (const choice of document.getElementsByName("widths")) {
  choice.addEventListener("change", () => {
    tree.measure(choice.value === "before" ? tree.base : tree.value);
    find(search.value);
  });
}
new ResizeObserver(() => {
  if (graph.clientWidth !== draw.room) {
    draw.room = graph.clientWidth;
    draw();
  }
}).observe(graph);

document.getElementById("interactive").hidden = false;
draw();
explain(0);
