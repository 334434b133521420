// Draws flame graphs and lets people steer them: a box for each frame under its callers, as wide as its value.
// Texts of the trace only ever go into textContent.

const LEVEL = 20; // pixels
const NARROWEST = 0.0012; // of the width; narrower boxes are not drawn until one zooms in
const READABLE = 24; // pixels; narrower boxes have no name
const TRUNK = 0.99; // of the whole; the first view starts below the callers that all have this much
const CRUMBS = 4; // callers that are named in the path, the innermost ones

// The inverted graph: on top the frames that take the time themselves, below each the frames that call it.
const inverted = (data) => {
  const zeros = () => data.own.map(() => [0]);
  const graph = { ...data, frame: [data.frame[0]], parent: [-1], total: zeros(), own: zeros() };
  const places = [new Map()]; // by box: the boxes below it, by frame
  const below = (box, frame) => {
    if (!places[box].has(frame)) {
      places[box].set(frame, graph.frame.push(frame) - 1);
      graph.parent.push(box);
      for (const values of [...graph.total, ...graph.own]) values.push(0);
      places.push(new Map());
    }
    return places[box].get(frame);
  };
  for (let box = 0; box < data.frame.length; box++) {
    if (!data.own.some((own) => own[box])) continue;
    const path = [0];
    for (let at = box; at > 0; at = data.parent[at]) path.push(below(path.at(-1), data.frame[at]));
    data.own.forEach((own, measure) => {
      for (const place of path) graph.total[measure][place] += own[box];
      graph.own[measure][path.at(-1)] += own[box];
    });
  }
  return graph;
};

class Flame {
  constructor(root) {
    this.root = root;
    this.given = JSON.parse(root.querySelector("script").textContent);
    this.tree = root.querySelector(".boxes");
    this.wanted = "";
    this.measure = 0;
    this.isInverted = false;
    this.load(this.given);
  }

  load(data) {
    this.data = data;
    this.size = data.frame.length;
    this.below = Array.from({ length: this.size }, () => []);
    this.depth = new Int32Array(this.size);
    for (let box = 1; box < this.size; box++) {
      const above = data.parent[box];
      this.below[above].push(box);
      this.depth[box] = this.depth[above] + 1;
    }
    const time = data.total[this.measure];
    if (this.isInverted) for (const boxes of this.below) boxes.sort((one, other) => time[other] - time[one]);
    this.zoomed = 0;
    this.measureBy(this.measure);
    this.zoomed = this.fork();
  }

  // Inverts the graph, or turns it back.
  invert() {
    this.isInverted = !this.isInverted;
    this.load(this.isInverted ? inverted(this.given) : this.given);
    this.draw();
  }

  // The innermost box that holds nearly all of the time and is not a leaf.
  fork() {
    let box = 0;
    for (;;) {
      const next = this.below[box].find((child) => this.total[child] >= TRUNK * this.total[0]);
      if (next === undefined || !this.below[next].length) return box;
      box = next;
    }
  }

  // Takes the widths from a measure; each box begins where the one before it ends.
  measureBy(measure) {
    this.measure = measure;
    this.total = this.data.total[measure];
    this.own = this.data.own[measure];
    this.start = new Float64Array(this.size);
    for (let box = 0; box < this.size; box++) {
      let at = this.start[box];
      for (const child of this.below[box]) {
        this.start[child] = at;
        at += this.total[child];
      }
    }
    if (!this.total[this.zoomed]) this.zoomed = 0;
  }

  name(box) {
    return this.data.frames[this.data.frame[box]][0];
  }

  // The name of a box with its line, without which all boxes of one function look alike.
  label(box) {
    const line = /:(\d+)$/.exec(this.place(box));
    return line ? `${this.name(box)}:${line[1]}` : this.name(box);
  }

  place(box) {
    return this.data.frames[this.data.frame[box]][1];
  }

  kind(box) {
    return this.data.kinds[this.data.frames[this.data.frame[box]][2]];
  }

  isWanted(box) {
    return `${this.name(box)} ${this.place(box)}`.toLowerCase().includes(this.wanted);
  }

  // The callers of a box from the root on, itself last.
  path(box) {
    const path = [];
    for (let at = box; at >= 0; at = this.data.parent[at]) path.unshift(at);
    return path;
  }

  // Draws the zoomed box and all below it.
  draw() {
    const [from, whole] = [this.start[this.zoomed], this.total[this.zoomed] || 1];
    const boxes = [];
    let levels = 0;
    const add = (box) => {
      if (this.total[box] < NARROWEST * whole && box !== this.zoomed) return;
      boxes.push(this.newBox(box, (this.start[box] - from) / whole, this.total[box] / whole));
      levels = Math.max(levels, this.depth[box] - this.depth[this.zoomed] + 1);
      this.below[box].forEach(add);
    };
    add(this.zoomed);
    this.tree.style.height = `${levels * LEVEL}px`;
    this.tree.replaceChildren(...boxes);
    this.drawCrumbs();
    this.light();
    this.describe(this.zoomed);
  }

  newBox(box, left, width) {
    const [label, colour, ink] = this.kind(box);
    const pixels = (this.tree.clientWidth || 1000) * width;
    const element = newElement("div", "box", pixels < READABLE ? "" : this.label(box));
    Object.assign(element.style, {
      left: `${100 * left}%`,
      width: `${100 * width}%`,
      top: `${(this.depth[box] - this.depth[this.zoomed]) * LEVEL}px`,
      background: colour,
      color: ink,
    });
    element.dataset.box = box;
    element.setAttribute("role", "treeitem");
    element.setAttribute("aria-level", this.depth[box] + 1);
    element.setAttribute("aria-label", [...this.words(box), label].filter(Boolean).join(", "));
    element.tabIndex = box === this.zoomed ? 0 : -1;
    return element;
  }

  // Name, place and values of a box, as texts.
  words(box) {
    const { ns, per, unit, of } = this.data.measures[this.measure];
    const value = (number) => [ns ? duration(number * ns) : "", percent(number / (this.total[0] || 1))];
    const [time, share] = value(this.total[box]);
    const own = this.own[box] ? `own: ${value(this.own[box]).filter(Boolean).join(", ")}` : "all of it in what it calls";
    const all = [time && `${time} ${per}`, `${share} of ${of}`, unit && `${counted(this.total[box])} ${unit}`];
    const rest = this.own[box] === this.total[box] ? "all its own" : own;
    return [this.name(box), this.place(box), all.filter(Boolean).join(", "), this.isInverted ? "in the frame on top" : rest];
  }

  describe(box) {
    const [name, place, total, own] = this.words(box);
    this.root.querySelector(".told").replaceChildren(newElement("strong", "", name), ` ${place}`, newElement("br", ""), `${total}; ${own}`);
    for (const other of this.tree.children) {
      other.classList.toggle("same", this.data.frame[other.dataset.box] === this.data.frame[box] && box !== this.zoomed);
    }
  }

  drawCrumbs() {
    const path = this.path(this.zoomed);
    const shown = path.length > CRUMBS + 2 ? [path[0], ...path.slice(-CRUMBS)] : path;
    const crumbs = shown.flatMap((box, at) => {
      const button = newButton(this.name(box), () => this.zoom(box));
      if (box === this.zoomed) button.setAttribute("aria-current", "true");
      const between = shown.length < path.length && at === 1 ? " › … › " : " › ";
      return at ? [between, button] : [button];
    });
    this.root.querySelector(".crumbs").replaceChildren(...crumbs);
  }

  zoom(box) {
    this.zoomed = box;
    const hadFocus = this.root.contains(document.activeElement);
    this.draw();
    if (hadFocus) this.focus(box);
  }

  // Goes back to the caller of what is shown; returns whether there is one.
  back() {
    if (!this.zoomed) return false;
    const last = this.zoomed;
    this.zoom(this.data.parent[this.zoomed]);
    this.focus(last);
    return true;
  }

  element(box) {
    return this.tree.querySelector(`[data-box="${box}"]`);
  }

  focus(box) {
    const element = this.element(box);
    if (!element) return;
    for (const other of this.tree.querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
    element.tabIndex = 0;
    element.focus({ preventScroll: true });
    element.scrollIntoView({ block: "nearest" });
  }

  // Lights up the boxes that match, and writes their share of the whole; a match inside another counts once.
  light(text = this.wanted) {
    this.wanted = text.toLowerCase();
    this.root.classList.toggle("searching", this.wanted !== "");
    for (const element of this.tree.children) {
      element.classList.toggle("found", this.wanted !== "" && this.isWanted(Number(element.dataset.box)));
    }
    const output = this.root.querySelector("output.lit");
    if (!this.wanted) return void (output.textContent = "");
    let [count, sum] = [0, 0];
    const inside = new Uint8Array(this.size);
    for (let box = 0; box < this.size; box++) {
      const above = this.data.parent[box];
      const isFound = this.isWanted(box);
      inside[box] = isFound || (above >= 0 && inside[above]) ? 1 : 0;
      if (!isFound) continue;
      count += 1;
      if (above < 0 || !inside[above]) sum += this.total[box];
    }
    const { of } = this.data.measures[this.measure];
    output.textContent = count ? `${counted(count)} found, ${percent(sum / (this.total[0] || 1))} of ${of}` : "not found";
  }
}

// The box that an arrow leads to.
const neighbour = (flame, box, key) => {
  if (key === "ArrowUp") return box === flame.zoomed ? undefined : flame.data.parent[box];
  if (key === "ArrowDown") return flame.below[box].find((child) => flame.element(child));
  const same = [...flame.tree.children].map((one) => Number(one.dataset.box));
  const level = same.filter((other) => flame.depth[other] === flame.depth[box]);
  level.sort((one, other) => flame.start[one] - flame.start[other]);
  return level[level.indexOf(box) + (key === "ArrowRight" ? 1 : -1)];
};

const onFlameKey = (flame) => (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const box = Number(event.target.dataset.box ?? flame.zoomed);
  const actions = {
    Enter: () => flame.zoom(box),
    " ": () => flame.zoom(box),
    Home: () => flame.zoom(0),
    Escape: () => flame.back(),
    Backspace: () => flame.back(),
  };
  for (const key of ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"]) {
    actions[key] = () => flame.focus(neighbour(flame, box, key));
  }
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
};

const steerFlame = (flame) => {
  const { root, tree } = flame;
  const boxOf = (event) => event.target.closest?.(".box")?.dataset.box;
  const describe = (event) => boxOf(event) !== undefined && flame.describe(Number(boxOf(event)));
  tree.addEventListener("click", (event) => boxOf(event) !== undefined && flame.zoom(Number(boxOf(event))));
  tree.addEventListener("pointerover", describe);
  tree.addEventListener("focusin", describe);
  tree.addEventListener("pointerleave", () => flame.describe(Number(document.activeElement?.dataset.box ?? flame.zoomed)));
  tree.addEventListener("keydown", onFlameKey(flame));
  root.querySelector(".crumbs").addEventListener("keydown", (event) => event.key === "Escape" && flame.back());
  const field = root.querySelector(".lights");
  field.addEventListener("input", () => flame.light(field.value.trim()));
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    field.value = "";
    flame.light("");
  });
  const turn = root.querySelector(".invert");
  turn.addEventListener("click", () => {
    flame.invert();
    turn.setAttribute("aria-pressed", String(flame.isInverted));
  });
  for (const button of root.querySelectorAll("[data-measure]")) {
    button.addEventListener("click", () => {
      flame.measureBy(Number(button.dataset.measure));
      flame.draw();
      for (const other of root.querySelectorAll("[data-measure]")) other.setAttribute("aria-pressed", String(other === button));
    });
  }
};

// A search in a timeline also lights up the flame graphs of the same trace.
const lightWith = (flame) => {
  const section = flame.root.closest("section");
  section?.addEventListener("input", (event) => {
    if (!event.target.matches?.(".find")) return;
    flame.root.querySelector(".lights").value = event.target.value;
    flame.light(event.target.value.trim());
  });
};

for (const root of document.querySelectorAll(".flame")) {
  try {
    const flame = new Flame(root);
    flame.draw();
    steerFlame(flame);
    lightWith(flame);
  } catch (error) {
    root.querySelector(".boxes").textContent = `The graph cannot be drawn in this browser: ${error.message}`;
    console.error(error);
  }
}
