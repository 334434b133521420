// One timeline on the page: its state, and what is drawn again when the state changes.

const EDGE = 0.01; // of a step's length, shown before and after it
const AROUND = 0.35; // of what a finding is about, shown before and after it
const SETTLED = 120; // ms without a change, after which what takes time is done

class Timeline {
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.plot = root.querySelector(".plot");
    this.stage = new Stage(this.plot);
    const [least, most] = widenedBy(data.whole, EDGE);
    this.whole = [least, Math.max(most, least + NEAREST)];
    this.first = root.dataset.first ? JSON.parse(root.dataset.first) : widenedBy(data.view, EDGE);
    this.view = clamped(this.first, this.whole);
    this.folded = foldedAtFirst(data);
    this.hidden = new Set();
    this.version = 0; // of what is hidden and lit
    this.rows = new Map();
    this.marks = [];
    this.link = undefined;
    this.chosen = undefined; // the event that is told about
    this.selection = undefined; // { from, to, lanes }
    this.tool = "pan";
    this.isOnPaper = false;
    this.finder = new Finder(this);
    this.overview = new Overview(this);
    this.placed = layOut(data, this.folded);
    this.settled = []; // called when the view has come to rest
  }

  get width() {
    return this.stage.width;
  }

  rowOf(lane) {
    let row = this.rows.get(lane);
    if (!row) {
      row = new Row(lane, this.hidden);
      row.light(this.finder.flags?.get(lane));
      this.rows.set(lane, row);
    }
    return row;
  }

  // Draws in the next frame what is to be seen; returns when that is done.
  draw() {
    this.pending ??= new Promise((resolve) => requestAnimationFrame(() => {
      this.pending = undefined;
      this.paint();
      resolve();
    }));
    this.plot.dataset.moving = "";
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settle(), SETTLED);
    return this.pending;
  }

  settle() {
    this.paint(true);
    this.sayDrawn();
    for (const listener of this.settled) listener();
    delete this.plot.dataset.moving;
  }

  // Paints the lanes on the screen, or all of them.
  paint(isWhole = false) {
    const { stage, view } = this;
    const theme = themeOf(this.isOnPaper);
    this.placed = layOut(this.data, this.folded);
    const { tops, height } = this.placed;
    const { width, ratio } = stage;
    this.overview.paint(theme);
    const { ticks, title } = axisOf(this.data, view, width);
    const [above, below] = isWhole || this.isOnPaper ? [-Infinity, Infinity] : stage.inSight();
    const context = stage.cleared(stage.canvas, width, height);
    const painter = new Painter(this.data, context, { view, width, ratio });
    this.paintGrid(painter, theme, ticks, height);
    for (const [lane, top] of tops) if (top + ROW > above && top < below) this.paintLane(painter, theme, lane, top);
    for (const mark of this.marks.filter(({ start, end }) => start < view[1] && end > view[0])) {
      const reach = reachOf(tops, mark.lanes);
      if (reach) paintMark(painter, theme, mark, reach);
    }
    if (this.link) paintLink(painter, theme, this.link, tops);
    this.writeAround(ticks, title);
    this.plot.dataset.view = view.join(" ");
  }

  paintGrid({ context, ratio, scale, view }, theme, ticks, height) {
    context.fillStyle = theme.line;
    for (const { time } of ticks) context.fillRect(Math.round((time - view[0]) * scale), 0, ratio, height * ratio);
  }

  paintLane(painter, theme, lane, top) {
    const { context, ratio } = painter;
    const labels = [];
    painter.row(this.rowOf(lane), top, BAR, (at, left, right, isLit) => labels.push(at, left, right, isLit));
    context.font = `${11 * ratio}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    const middle = (top + BAR / 2 + 0.5) * ratio;
    for (let one = 0; one < labels.length; one += 4) {
      const [at, left, right, isLit] = labels.slice(one, one + 4);
      const cell = { lane, first: at, last: at };
      const text = fitted(context, labelOf(this.data, cell), right - left - 2 * LABEL_PADDING * ratio);
      context.fillStyle = isLit ? this.data.kinds[lane.kind[at]].ink : theme.muted;
      context.fillText(text, left + LABEL_PADDING * ratio, middle);
    }
  }

  // Ticks, names of lanes and groups, marks and the selected area, which are elements.
  writeAround(ticks, title) {
    const { stage, view, placed } = this;
    const scale = stage.width / (view[1] - view[0]);
    const x = (time) => stage.gutter + (time - view[0]) * scale;
    const end = stage.gutter + stage.width + RIGHT - TICK_ROOM;
    filled(stage.ticks, "span", ticks.filter(({ time }) => x(time) < end), (span, { time, text }) => {
      setText(span, text);
      span.style.transform = `translateX(${x(time)}px)`;
    });
    setText(stage.title, title);
    nameMarks(stage, view, this.marks, placed.tops);
    const state = [placed.height, stage.gutter, ...this.folded].join();
    if (state !== this.written) {
      this.written = state;
      this.writeNames();
    }
    this.writeSelection(x);
  }

  writeSelection(x) {
    const { rubber, width, gutter } = this.stage;
    const reach = this.selection && reachOf(this.placed.tops, this.selection.lanes);
    rubber.hidden = !reach;
    if (!reach) return;
    const [left, right] = [this.selection.from, this.selection.to].map((time) => Math.min(Math.max(x(time), gutter), gutter + width));
    rubber.hidden = right <= gutter || left >= gutter + width;
    Object.assign(rubber.style, { left: `${left}px`, width: `${right - left}px`, top: `${reach[0]}px`, height: `${reach[1] - reach[0]}px` });
  }

  writeNames() {
    const { stage, placed } = this;
    const named = this.data.lanes.filter((lane) => placed.tops.has(lane) && lane.label);
    filled(stage.names, "span", named, (span, lane) => {
      setText(span, lane.label);
      span.title = lane.label;
      span.style.top = `${placed.tops.get(lane) + BAR / 2}px`;
      span.style.width = `${stage.gutter - 6}px`;
    });
    const focused = document.activeElement?.dataset?.group;
    stage.headings.replaceChildren(...placed.headings.map((heading) => this.headingOf(heading)));
    if (focused) [...stage.headings.children].find(({ dataset }) => dataset.group === focused)?.focus();
  }

  // The name of a group: a button that folds its lanes.
  headingOf({ group, top, lanes }) {
    const isFolded = this.folded.has(group);
    const button = made("button", "", `${isFolded ? "▸" : "▾"} ${group}${isFolded ? `: ${lanes} lanes folded` : ""}`);
    button.type = "button";
    button.dataset.group = group;
    button.setAttribute("aria-expanded", String(!isFolded));
    button.style.top = `${top + HEADING / 2}px`;
    button.addEventListener("click", () => {
      if (!this.folded.delete(group)) this.folded.add(group);
      this.draw();
    });
    return button;
  }

  // Shows a part of the trace, in ns.
  show(view, quietly = false) {
    this.view = quietly ? view : clamped(view, this.whole); // a timeline that shares its view may end before it
    this.stage.tip.hidden = true;
    this.isLeading = !quietly;
    if (!quietly) this.onShow?.(this.view);
    return this.draw();
  }

  // Shows `factor` times as much, with the time at a place (0 to 1) of the width staying there.
  zoom(factor, place = 0.5) {
    const [from, to] = this.view;
    const [least, most] = this.whole;
    const span = Math.min(Math.max((to - from) * factor, NEAREST), most - least);
    const start = from + place * (to - from) - place * span;
    return this.show([start, start + span]);
  }

  // Moves by a share of what is shown.
  move(share) {
    const [from, to] = this.view;
    return this.show([from + (to - from) * share, to + (to - from) * share]);
  }

  showStep(step) {
    const { start, last } = this.data.steps;
    if (step >= 0 && step < start.length) this.show(widenedBy([start[step], last[step]], EDGE));
  }

  // The step that a view is of: the one from whose start the axis counts.
  get step() {
    return referenceStep(this.data, this.view);
  }

  // Where a pointer is: the time, the lane, and the place from 0 to 1 on the width.
  placeOf(event) {
    const bounds = this.stage.body.getBoundingClientRect();
    const x = event.clientX - bounds.left - this.stage.gutter;
    const y = event.clientY - bounds.top;
    const place = x / this.width;
    const time = this.view[0] + place * (this.view[1] - this.view[0]);
    const lane = [...this.placed.tops].find(([, top]) => y >= top - 2 && y < top + ROW - 2)?.[0];
    return { x, y, place, time, lane };
  }

  // What is drawn at a place of the window.
  at(event) {
    const { place, time, lane } = this.placeOf(event);
    if (!lane || place < 0 || place > 1) return undefined;
    const row = this.rowOf(lane);
    const found = row.find(time, (this.view[1] - this.view[0]) / this.width);
    return found && cellOf(row, ...found);
  }

  sayDrawn() {
    let [events, blocks, alone] = [0, 0, 0];
    const pixel = (this.view[1] - this.view[0]) / this.width;
    for (const lane of this.placed.tops.keys()) {
      if (lane.source === "overlap") continue;
      const row = this.rowOf(lane);
      const held = (first) => (lane.count ? lane.count[row.placeOf(first)] : 1);
      row.walk(...this.view, pixel, (first, next) => {
        if (next - first === 1 && held(first) === 1) alone += 1;
        else [events, blocks] = [events + (next - first > 1 ? next - first : held(first)), blocks + 1];
      });
    }
    const why = `narrower than a pixel here${this.data.lanes.some((lane) => lane.count) ? " or merged in this page" : ""}`;
    const merged = blocks ? `, ${counted(events)} more, ${why}, as ${counted(blocks)} blocks, each as high as its share of busy time` : "";
    const span = `${duration(this.view[1] - this.view[0])} shown`;
    this.root.querySelector(".drawn").textContent = `${span}: ${counted(alone)} events one by one${merged}.`;
  }

  // Hides or shows a kind.
  toggle(kind) {
    if (!this.hidden.delete(kind)) this.hidden.add(kind);
    this.rows.clear();
    this.version += 1;
    return this.draw();
  }

  // Marks events: [what, lanes, start, end], and says what is known of them: lists of lines, or elements.
  mark(marks, link, words) {
    this.marks = marks;
    this.link = link;
    const chosen = this.root.querySelector(".chosen");
    chosen.hidden = !words?.length;
    chosen.replaceChildren(...(words ?? []).map((one) => (one instanceof Node ? one : asParagraphs(one))));
    if (words?.length) chosen.append(closing("close", () => this.unmark()));
    return this.draw();
  }

  // Marks an event and what launched it or what it waits for, and tells of them.
  choose(cell) {
    const { lane, first } = cell;
    const own = { what: cell.count > 1 ? "block" : "chosen", lanes: [lane], start: cell.start, end: cell.end };
    this.chosen = { lane, at: first };
    const column = cell.count === 1 ? (lane.launch ?? lane.awaited) : undefined;
    const other = column && linked(this.data, column[first]);
    if (!other) return this.mark([own], undefined, [toldOf(this, cell)]);
    this.folded.delete(other.lane.group);
    const its = { what: lane.launch ? "its launch" : "awaited work", lanes: [other.lane] };
    [its.start, its.end] = [other.lane.start[other.first], other.lane.end[other.first]];
    const link = lane.launch ? { from: other, to: cell } : undefined;
    const told = toldOf(this, newCell(other.lane, other.first), lane.launch ? "its launch" : "awaited work");
    return this.mark([own, its], link, [toldOf(this, cell), told]);
  }

  unmark() {
    this.chosen = undefined;
    return this.mark([], undefined);
  }

  // Goes to an event and tells of it; what is wide enough to be seen stays where it is.
  goTo(lane, at) {
    this.folded.delete(lane.group);
    const [from, to] = this.view;
    const length = lane.end[at] - lane.start[at];
    const isSeen = lane.start[at] >= from && lane.end[at] <= to && length * 50 > to - from;
    if (!isSeen) {
      const half = Math.max(length * 5, 5000);
      const middle = (lane.start[at] + lane.end[at]) / 2;
      this.show([middle - half, middle + half]);
    }
    return this.choose(newCell(lane, at));
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
    const events = found.filter(({ event }) => event);
    const told = events.map(({ what, event }) => toldOf(this, newCell(event.lane, event.first), what));
    this.chosen = events.length ? { lane: events[0].event.lane, at: events[0].event.first } : undefined;
    this.mark(found, undefined, told);
    return this.show(widenedBy(range, AROUND));
  }

  search(text) {
    return this.finder.search(text);
  }

  // Shows some events among all others, which fade, and goes to the first: [{ lane, at }], or a test of (lane, at).
  // A lane is one of data.lanes, or its number there.
  async showEvents(which) {
    this.root.querySelector(".find").value = "";
    await this.finder.light(typeof which === "function" ? which : oneOf(this.data, which));
    return this.finder.next(0);
  }

  nextMatch() {
    return this.finder.next();
  }

  clear() {
    this.unmark();
    this.select(undefined);
    this.root.querySelector(".find").value = "";
    return this.search("");
  }

  // Selects a time in some lanes, and says their sums; nothing ends it.
  select(selection) {
    this.selection = selection;
    showSums(this);
    return this.draw();
  }
}

const asParagraphs = ([heading, ...lines]) => {
  const item = made("div", "");
  item.append(made("strong", "", heading), ...lines.map((line) => made("div", "", line)));
  return item;
};
