// One timeline on the page: its state, and what is drawn again when the state changes.

const LABEL_MIN = 34; // pixels; narrower rectangles have no label
const LABEL_PADDING = 3; // pixels
const WIDE_MARK = 160; // pixels; on what is wider, the name of a mark stands in the middle
const EDGE = 0.01; // of a step's length, shown before and after it
const AROUND = 0.35; // of what a finding is about, shown before and after it
const NEAREST = 20; // ns; no view is shorter

const made = (tag, className, text = "") => {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
};

const clamped = ([from, to], [least, most]) => {
  const span = Math.min(Math.max(to - from, NEAREST), most - least);
  const start = Math.min(Math.max((from + to - span) / 2, least), most - span);
  return [start, start + span];
};

const widenedBy = ([from, to], share) => [from - share * (to - from), to + share * (to - from)];

class Timeline {
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.plot = root.querySelector(".plot");
    this.whole = widenedBy(data.whole, EDGE);
    this.first = root.dataset.first ? JSON.parse(root.dataset.first) : widenedBy(data.view, EDGE);
    this.view = clamped(this.first, this.whole);
    this.folded = new Set();
    this.hidden = new Set();
    this.colours = coloursOf(data);
    this.marks = [];
    this.link = undefined;
    this.isFound = undefined;
    this.drawn = new Map();
  }

  get width() {
    return Math.max(this.plot.clientWidth - ROOM.l - ROOM.r, 100);
  }

  // Draws what is to be seen of the lanes; returns when plotly is done.
  async draw() {
    const [from, to] = this.view;
    const pixel = (to - from) / this.width;
    const around = widenedBy(this.view, MARGIN);
    this.placed = layOut(this.data, this.folded);
    this.drawn = new Map();
    const rows = [];
    for (const [lane, place] of this.placed.places) {
      const cells = cellsOf(lane, ...around, pixel, this.hidden, this.isFound);
      if (!cells.length) continue;
      const drawn = { cells, edges: edgesOf(cells, LEAST * pixel) };
      this.drawn.set(lane, drawn);
      rows.push(rowOf(this.data, this.colours, drawn, place, around, this.isFound !== undefined));
    }
    const { shapes, notes } = marksOf(this.marks, this.link, this.placed.places);
    const layout = layoutOf(this.data, this.placed, this.view, shapes, this.width);
    this.plot.style.height = `${layout.height}px`;
    await Plotly.react(this.plot, rows, layout, {
      displaylogo: false,
      responsive: true,
      doubleClick: false,
      modeBarButtons: [["zoom2d", "pan2d"], ["toImage"]],
    });
    this.drawLabels(notes);
    this.drawHeadings();
    this.sayMerged();
  }

  // Shows a part of the trace, in ns; drawings that come in quick succession become one.
  show(view, quietly = false) {
    this.view = quietly ? view : clamped(view, this.whole); // a timeline that shares its view may end before it
    if (!quietly) this.onShow?.(this.view);
    this.pending ??= Promise.resolve().then(() => {
      this.pending = undefined;
      return this.draw();
    });
    return this.pending;
  }

  showStep(step) {
    const { start, last } = this.data.steps;
    if (step >= 0 && step < start.length) this.show(widenedBy([start[step], last[step]], EDGE));
  }

  // The step that a view is of: the one from whose start the axis counts.
  get step() {
    return referenceStep(this.data, this.view);
  }

  // What is drawn at a place of the window.
  at(event) {
    const bounds = this.plot.getBoundingClientRect();
    const x = event.clientX - bounds.left - ROOM.l;
    const y = (event.clientY - bounds.top - ROOM.t) / this.rowHeight - 0.6;
    if (x < 0 || x > this.width) return undefined;
    for (const [lane, drawn] of this.drawn) {
      if (Math.abs(this.placed.places.get(lane) - y) > HALF) continue;
      return cellAt(drawn, this.view[0] + (x / this.width) * (this.view[1] - this.view[0]));
    }
    return undefined;
  }

  get rowHeight() {
    return (this.placed.rows * ROW) / (this.placed.rows + 0.2);
  }

  pixelsOf(place) {
    return ROOM.t + (place + 0.6) * this.rowHeight;
  }

  layer(name) {
    const found = this.plot.querySelector(`:scope > .${name}`);
    if (found) return found;
    const layer = made("div", name);
    this.plot.append(layer);
    return layer;
  }

  // Names in the rectangles that are wide enough, and of what is marked, as a layer above the plot.
  drawLabels(notes) {
    const [from, to] = this.view;
    const scale = this.width / (to - from);
    const labels = document.createDocumentFragment();
    for (const [lane, { cells, edges }] of this.drawn) {
      const top = this.pixelsOf(this.placed.places.get(lane));
      cells.forEach((cell, at) => {
        const left = (Math.max(edges[2 * at], from) - from) * scale;
        const width = (Math.min(edges[2 * at + 1], to) - from) * scale - left;
        if (width < LABEL_MIN) return;
        const label = made("span", "", labelOf(this.data, cell, cell.count));
        label.style.color = this.data.kinds[cell.kind].ink;
        if (this.isFound && !cell.found) label.style.color = "var(--muted)";
        label.style.left = `${ROOM.l + left + LABEL_PADDING}px`;
        label.style.top = `${top}px`;
        label.style.width = `${width - 2 * LABEL_PADDING}px`;
        labels.append(label);
      });
    }
    for (const { what, start, end, place } of notes.filter((one) => one.start < to && one.end > from)) {
      const mark = made("span", "mark", what);
      const [left, right] = [Math.max(start, from), Math.min(end, to)].map((time) => ROOM.l + (time - from) * scale);
      const isWide = right - left > WIDE_MARK;
      mark.style.left = `${isWide ? (left + right) / 2 : Math.min(left, ROOM.l + this.width - WIDE_MARK / 2)}px`;
      mark.classList.toggle("centred", isWide);
      mark.style.top = `${this.pixelsOf(place)}px`;
      labels.append(mark);
    }
    this.layer("labels").replaceChildren(labels);
  }

  // The names of the groups: buttons that fold their lanes.
  drawHeadings() {
    const layer = this.layer("headings");
    const focused = document.activeElement?.dataset?.group;
    layer.replaceChildren();
    for (const { group, place, lanes } of this.placed.headings) {
      const isFolded = this.folded.has(group);
      const button = made("button", "", `${isFolded ? "▸" : "▾"} ${group}${isFolded ? `: ${lanes} lanes folded` : ""}`);
      button.type = "button";
      button.dataset.group = group;
      button.setAttribute("aria-expanded", String(!isFolded));
      button.style.top = `${this.pixelsOf(place)}px`;
      button.addEventListener("click", () => {
        if (!this.folded.delete(group)) this.folded.add(group);
        this.draw();
      });
      layer.append(button);
      if (group === focused) button.focus();
    }
  }

  sayMerged() {
    let [events, blocks, alone] = [0, 0, 0];
    for (const [lane, { cells }] of this.drawn) {
      if (lane.source === "overlap") continue;
      for (const { count } of cells) {
        if (count > 1) [events, blocks] = [events + count, blocks + 1];
        else alone += 1;
      }
    }
    const why = `narrower than a pixel here${this.data.lanes.some((lane) => lane.count) ? " or merged in this page" : ""}`;
    const merged = blocks ? `, ${counted(events)} more, ${why}, as ${counted(blocks)} blocks` : "";
    const span = `${duration(this.view[1] - this.view[0])} shown`;
    this.root.querySelector(".drawn").textContent = `${span}: ${counted(alone)} events one by one${merged}.`;
  }

  // Marks events: [what, lane, start, end], and says what is known of the first.
  mark(marks, link, words) {
    this.marks = marks;
    this.link = link;
    const chosen = this.root.querySelector(".chosen");
    chosen.hidden = !words?.length;
    chosen.replaceChildren(...(words ?? []).map(asParagraphs));
  }

  // Marks an event and what launched it; the view is widened if the launch lies outside.
  choose(cell) {
    const { lane, first } = cell;
    const own = { what: cell.count > 1 ? "block" : "chosen", lanes: [lane], start: cell.start, end: cell.end };
    const launch = cell.count === 1 && lane.launch ? linked(this.data, lane.launch[first]) : undefined;
    if (!launch) {
      this.mark([own], undefined, [wordsOf(this.data, cell)]);
      return this.show(this.view);
    }
    this.folded.delete(launch.lane.group);
    const [start, end] = [launch.lane.start[launch.first], launch.lane.end[launch.first]];
    const its = { what: "its launch", lanes: [launch.lane], start, end };
    const launchCell = newCell(launch.lane, launch.first);
    this.mark([own, its], { from: launch, to: cell }, [wordsOf(this.data, cell), wordsOf(this.data, launchCell)]);
    const [from, to] = this.view;
    return this.show(start >= from && start <= to ? this.view : widenedBy([Math.min(start, from), Math.max(to, end)], EDGE));
  }

  // Zooms to the worst instance of a finding, and marks the wait, the awaited work and the bubble.
  showFinding({ range, marks }) {
    const found = marks.map(([what, source, start, end]) => {
      const device = /^device (-?\d+)$/.exec(source);
      if (device) {
        const group = this.data.lanes.find((lane) => lane.device === Number(device[1]))?.group;
        return { what, lanes: this.data.lanes.filter((lane) => lane.group === group), start, end };
      }
      const event = eventAt(this.data, source, start, end) ?? blockAt(this.data, source, start);
      return { what, event, lanes: event ? [event.lane] : [], start, end };
    });
    for (const { lanes } of found) for (const { group } of lanes) this.folded.delete(group);
    const words = found.filter(({ event }) => event);
    const said = words.map(({ what, event }) => {
      const [name, ...lines] = wordsOf(this.data, newCell(event.lane, event.first));
      return [`${what}: ${name}`, ...lines];
    });
    this.mark(found, undefined, said);
    return this.show(widenedBy(range, AROUND));
  }

  search(text) {
    return this.highlight(text ? searched(this.data, text) : undefined);
  }

  // Shows some events among all others, which fade, and goes to the first: [{ lane, at }], or a test of (lane, at).
  // A lane is one of data.lanes, or its number there.
  async showEvents(which) {
    this.root.querySelector(".find").value = "";
    await this.highlight(typeof which === "function" ? which : oneOf(this.data, which));
    return this.nextMatch(0);
  }

  highlight(isFound) {
    this.isFound = isFound;
    this.matches = isFound && this.allMatches();
    this.root.querySelector(".found-next").hidden = !isFound;
    const found = this.matches?.length ? `${counted(this.matches.length)} found` : "not found";
    this.root.querySelector(".found").textContent = isFound ? found : "";
    this.place = -1;
    return this.draw();
  }

  allMatches() {
    const matches = [];
    for (const lane of this.data.lanes) {
      for (let at = 0; at < lane.size; at++) if (this.isFound(lane, at)) matches.push({ lane, at });
    }
    return matches.sort((one, other) => one.lane.start[one.at] - other.lane.start[other.at]);
  }

  // Goes to the next event that was found, the first time to the first one in the view.
  nextMatch(place) {
    if (!this.matches?.length) return;
    const first = this.matches.findIndex(({ lane, at }) => lane.start[at] >= this.view[0]);
    this.place = place ?? (this.place < 0 ? Math.max(first, 0) : (this.place + 1) % this.matches.length);
    const { lane, at } = this.matches[this.place];
    this.root.querySelector(".found").textContent = `${counted(this.place + 1)} of ${counted(this.matches.length)}`;
    this.folded.delete(lane.group);
    const [from, to] = this.view;
    const isSeen = lane.start[at] >= from && lane.end[at] <= to && (lane.end[at] - lane.start[at]) * 50 > to - from;
    if (!isSeen) {
      const half = Math.max((lane.end[at] - lane.start[at]) * 5, 5000);
      const middle = (lane.start[at] + lane.end[at]) / 2;
      this.view = clamped([middle - half, middle + half], this.whole);
    }
    this.choose(newCell(lane, at));
  }

  clear() {
    this.mark([], undefined);
    this.root.querySelector(".find").value = "";
    return this.search("");
  }
}

const asParagraphs = ([heading, ...lines]) => {
  const item = made("div", "");
  item.append(made("strong", "", heading), ...lines.map((line) => made("div", "", line)));
  return item;
};
