// The state of a timeline and its drawing, once in a frame.

const EDGE = 0.01; // of a step's length, shown before and after it
const POINTED = 60; // pixels of the time at the pointer
const SETTLED = 120; // ms without a change, after which slow work is done

class TimelineDrawing {
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.plot = root.querySelector(".plot");
    this.stage = new Stage(this.plot);
    const [least, most] = widenedBy(data.whole, EDGE);
    this.recorded = [least, Math.max(most, least + SHORTEST_VIEW)];
    this.whole = this.recorded; // of all timelines that share the view
    this.first = root.dataset.first ? JSON.parse(root.dataset.first) : widenedBy(data.view, EDGE);
    this.view = clamped(this.first, this.whole);
    this.folded = foldedAtFirst(data, this.view);
    this.hidden = new Set();
    this.version = 0; // changes with what is hidden or lit
    this.rows = new Map();
    this.marks = [];
    this.flags = []; // times that somebody marked, in order
    this.link = undefined;
    this.chosen = undefined; // the event whose details are shown
    this.selection = undefined; // { from, to, lanes }
    this.tool = "pan";
    this.isOnPaper = false;
    this.finder = new Finder(this);
    this.overview = new Overview(this);
    this.isPinned = !root.dataset.shared; // lanes of GPUs on top; timelines under each other have no room for that
    this.placed = layOut(data, this.folded, this.isPinned);
    this.pointed = undefined; // place of the pointer on the width, from 0 to 1
    this.textOf = () => "";
    this.settled = []; // functions to call when the view has come to rest
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

  // Draws in the next frame; the promise resolves when that is done.
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
    this.writeDrawn();
    this.overview.announce();
    this.finder.listAgain();
    for (const listener of this.settled) listener();
    delete this.plot.dataset.moving;
  }

  // Paints the lanes on the screen, or all of them.
  paint(isWhole = false) {
    const { stage, view } = this;
    const theme = themeOf(this.isOnPaper);
    this.placed = layOut(this.data, this.folded, this.isPinned);
    const { tops, height, pinned } = this.placed;
    const { width, ratio } = stage;
    if (leadTimeline(this) === this) this.overview.paint(theme);
    const { ticks, textOf, title } = axisOf(this.data, view, width);
    const [above, below] = isWhole || this.isOnPaper ? [-Infinity, Infinity] : stage.inSight();
    const context = stage.cleared(stage.canvas, width, height);
    const painter = new Painter(this.data, context, { view, width, ratio, isDark: theme.isDark });
    this.paintGrid(painter, theme.line, ticks.map(({ time }) => time), height);
    for (const [lane, top] of tops) if (top < pinned || (top + barOf(lane) > above && top < below)) this.paintLane(painter, theme, lane, top);
    for (const mark of this.marks.filter(({ start, end }) => start < view[1] && end > view[0])) {
      const reach = reachOf(tops, mark.lanes);
      if (reach) paintMark(painter, theme, mark, reach);
    }
    if (this.link) paintLink(painter, theme, this.link, tops);
    this.paintGrid(painter, theme.text, this.flags, height);
    this.pin(theme);
    this.writeAround([...ticks, ...this.flagged(textOf)], title);
    this.textOf = textOf;
    this.writePointed();
    this.plot.dataset.view = view.join(" ");
  }

  // Keeps the lanes on top in sight.
  pin(theme = themeOf(this.isOnPaper)) {
    const { headings, tops, pinned } = this.placed;
    const names = [...tops].map(([lane, top]) => ({ text: lane.label, top, middle: top + barOf(lane) / 2 }));
    const groups = headings.map(({ group, top }) => ({ text: group, top, middle: top + HEADING / 2, isHeading: true }));
    this.stage.pin(this.isOnPaper || this.root.dataset.shared ? 0 : pinned, theme, [...names, ...groups].filter(({ top }) => top < pinned));
  }

  paintGrid({ context, ratio, scale, view }, colour, times, height) {
    context.fillStyle = colour;
    for (const time of times) context.fillRect(Math.round((time - view[0]) * scale), 0, ratio, height * ratio);
  }

  // The flags in view as ticks of the axis, each with its time and the time since the flag before.
  flagged(textOf) {
    const words = (time, at) => (at ? `${textOf(time)} (+${duration(time - this.flags[at - 1])})` : textOf(time));
    return this.flags.map((time, at) => ({ time, text: `⚑ ${words(time, at)}`, isFlag: true })).filter(({ time }) => time >= this.view[0]);
  }

  paintLane(painter, theme, lane, top) {
    const { context, ratio } = painter;
    context.font = `${LABEL_PIXELS * ratio}px ${theme.sans}`;
    context.textBaseline = "middle";
    if (lane.source === "memory") {
      painter.area(this.rowOf(lane), top, barOf(lane), theme);
      return;
    }
    const labels = [];
    painter.row(this.rowOf(lane), top, BAR, (at, left, right, isLit) => labels.push(at, left, right, isLit));
    const middle = (top + BAR / 2 + 0.5) * ratio;
    for (let one = 0; one < labels.length; one += 4) {
      const [at, left, right, isLit] = labels.slice(one, one + 4);
      const cell = { lane, first: at, last: at };
      const text = fitted(context, labelOf(this.data, cell), right - left - 2 * LABEL_PADDING * ratio);
      context.fillStyle = isLit ? painter.kinds[lane.kind[at]].ink : theme.muted;
      context.fillText(text, left + LABEL_PADDING * ratio, middle);
    }
  }

  // Writes what is not on the canvas: ticks, names of lanes and groups, marks and the selection.
  writeAround(ticks, title) {
    const { stage, view, placed } = this;
    const scale = stage.width / (view[1] - view[0]);
    const x = (time) => stage.gutter + (time - view[0]) * scale;
    const end = stage.gutter + stage.width + RIGHT - TICK_ROOM;
    fillChildren(stage.ticks, "span", ticks.filter(({ time }) => x(time) < end), (span, { time, text, isFlag }) => {
      setText(span, text);
      span.className = isFlag ? "flag" : "";
      span.style.transform = `translateX(${x(time)}px)`;
    });
    setText(stage.title, title);
    nameMarks(stage, view, this.marks, placed.tops);
    const state = [placed.height, stage.gutter, this.isPinned, ...this.folded].join();
    if (state !== this.written) {
      this.written = state;
      this.writeNames();
    }
    this.writeSelection(x);
  }

  // Writes the time at the pointer on the axis.
  writePointed() {
    const { now, cursor, gutter, width, ticks } = this.stage;
    now.hidden = cursor.hidden = this.pointed === undefined;
    for (const tick of ticks.children) tick.style.visibility = "";
    if (now.hidden) return;
    const [from, to] = this.view;
    const x = gutter + this.pointed * width;
    cursor.style.transform = `translateX(${x}px)`;
    setText(now, this.textOf(from + this.pointed * (to - from)));
    const isLeft = this.pointed > 0.5;
    now.style.transform = `translateX(${x}px) translateX(${isLeft ? "-100%" : "0"})`;
    const [first, last] = isLeft ? [x - 2 * POINTED, x] : [x - POINTED, x + POINTED];
    for (const tick of ticks.children) {
      const at = Number(/-?[\d.]+/.exec(tick.style.transform)?.[0]);
      if (at > first && at < last && !tick.className) tick.style.visibility = "hidden"; // the time at the pointer lies over it
    }
  }

  writeSelection(x) {
    const { rubber, width, gutter } = this.stage;
    const reach = this.selection && reachOf(this.placed.tops, this.selection.lanes);
    rubber.hidden = !reach;
    if (!reach) return;
    const within = (time) => Math.min(Math.max(x(time), gutter), gutter + width);
    const [left, right, [top, bottom]] = [within(this.selection.from), within(this.selection.to), reach];
    rubber.hidden = right <= gutter || left >= gutter + width;
    rubber.dataset.length = duration(this.selection.to - this.selection.from);
    const pixels = { left, width: right - left, top, height: bottom - top };
    for (const [side, length] of Object.entries(pixels)) rubber.style[side] = `${length}px`;
  }

  writeNames() {
    const { stage, placed } = this;
    const named = [...placed.tops.keys()].filter((lane) => lane.label);
    fillChildren(stage.names, "span", named, (span, lane) => {
      setText(span, lane.label);
      span.title = lane.label;
      span.style.top = `${placed.tops.get(lane) + barOf(lane) / 2}px`;
      span.style.width = `${stage.gutter - 6}px`;
    });
    const focused = document.activeElement?.dataset?.group;
    stage.headings.replaceChildren(...placed.headings.map((heading) => this.headingOf(heading)));
    if (focused) [...stage.headings.children].find(({ dataset }) => dataset.group === focused)?.focus();
  }

  // The name of a group, as a button that folds its lanes.
  headingOf({ group, top, lanes }) {
    const isFolded = this.folded.has(group);
    const folded = isFolded ? `: ${howMany(lanes, "lane")} folded` : "";
    const button = newButton(`${isFolded ? "▸" : "▾"} ${group}${folded}`, () => {
      if (!this.folded.delete(group)) this.folded.add(group);
      this.draw();
    });
    button.dataset.group = group;
    button.setAttribute("aria-expanded", String(!isFolded));
    button.style.top = `${top + HEADING / 2}px`;
    return button;
  }

  // The place of a pointer: time, lane, and place on the width from 0 to 1.
  placeOf(event) {
    const bounds = this.stage.body.getBoundingClientRect();
    const x = event.clientX - bounds.left - this.stage.gutter;
    const y = this.stage.below(event);
    const place = x / this.width;
    const time = this.view[0] + place * (this.view[1] - this.view[0]);
    const lane = [...this.placed.tops].find(([one, top]) => y >= top - 2 && y < top + barOf(one) + 2)?.[0];
    return { x, y, place, time, lane };
  }

  // The cell below a pointer, if there is one.
  at(event) {
    const { place, time, lane } = this.placeOf(event);
    if (!lane || place < 0 || place > 1) return undefined;
    const row = this.rowOf(lane);
    const rectangle = row.find(time, (this.view[1] - this.view[0]) / this.width);
    return rectangle && cellOfBlock(row, ...rectangle);
  }

  writeDrawn() {
    let [events, blocks, alone] = [0, 0, 0];
    const pixel = (this.view[1] - this.view[0]) / this.width;
    for (const lane of this.placed.tops.keys()) {
      if (MEASURES.has(lane.source)) continue;
      const row = this.rowOf(lane);
      const held = (first) => (lane.count ? lane.count[row.placeOf(first)] : 1);
      row.walk(...this.view, pixel, (first, next) => {
        if (next - first === 1 && held(first) === 1) alone += 1;
        else [events, blocks] = [events + (next - first > 1 ? next - first : held(first)), blocks + 1];
      });
    }
    const why = `narrower than a pixel here${this.data.lanes.some((lane) => lane.count) ? " or merged in this page" : ""}`;
    const asBlocks = blocks === 1 ? "1 block, as high as its share of busy time"
      : `${counted(blocks)} blocks, each as high as its share of busy time`;
    const merged = blocks ? `, ${counted(events)} more, ${why}, as ${asBlocks}` : "";
    const span = `${duration(this.view[1] - this.view[0])} shown`;
    this.root.querySelector(".drawn").textContent = `${span}: ${howMany(alone, "event")} one by one${merged}.`;
  }
}
