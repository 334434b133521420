// The elements of a timeline (canvases, with texts and buttons above them) and the places of lanes, ticks and marks.

const newElement = (tag, className, text = "") => {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
};

// Gives a parent one child per thing and fills each. Reuses children: a frame has no time to create elements.
const fillChildren = (parent, tag, things, fill) => {
  while (parent.children.length > things.length) parent.lastChild.remove();
  while (parent.children.length < things.length) parent.append(newElement(tag, ""));
  things.forEach((thing, at) => fill(parent.children[at], thing));
};

const setText = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

const newButton = (text, action, className = "") => {
  const button = newElement("button", className, text);
  button.type = "button";
  button.addEventListener("click", action);
  return button;
};

const closeButton = (text, action) => {
  const button = newButton("×", action, "close");
  button.setAttribute("aria-label", text);
  return button;
};

// Calls `action` with each element when it comes near the window.
const onceNear = (elements, action) => {
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
        observer.unobserve(target);
        action(target);
      }
    },
    { rootMargin: "600px" },
  );
  for (const element of elements) observer.observe(element);
};

class Stage {
  constructor(plot) {
    this.plot = plot;
    this.head = newElement("div", "head");
    this.overview = newElement("canvas", "overview");
    this.overview.tabIndex = 0;
    const spoken = { role: "slider", "aria-label": "Window in the whole recording", "aria-valuemin": "0", "aria-valuemax": "100" };
    for (const [name, value] of Object.entries(spoken)) this.overview.setAttribute(name, value);
    this.ticks = newElement("div", "ticks");
    this.now = newElement("div", "now"); // the time at the pointer
    this.now.setAttribute("aria-hidden", "true");
    this.pinned = newElement("canvas", "pinned"); // the lanes on top, while the page is scrolled past them
    this.pinned.setAttribute("aria-hidden", "true");
    this.pinned.hidden = true;
    this.head.append(this.overview, this.ticks, this.now, this.pinned);
    this.body = newElement("div", "body");
    this.canvas = newElement("canvas", "rows");
    this.canvas.setAttribute("aria-hidden", "true");
    this.names = newElement("div", "names");
    this.labels = newElement("div", "labels");
    this.headings = newElement("div", "headings");
    this.rubber = newElement("div", "rubber");
    this.cursor = newElement("div", "cursor");
    this.tip = newElement("div", "tip");
    this.title = newElement("div", "xtitle");
    this.tip.hidden = this.rubber.hidden = this.cursor.hidden = this.now.hidden = true;
    this.body.append(this.canvas, this.names, this.rubber, this.cursor, this.labels, this.headings, this.tip);
    plot.replaceChildren(this.head, this.body, this.title);
    this.paperWidth = undefined;
    this.measure();
  }

  // Asks for the width of the plot. Not in each frame: the browser has to lay out the page to answer.
  measure() {
    this.ownWidth = this.plot.clientWidth;
  }

  get gutter() {
    return this.fullWidth < NARROW ? NARROW_GUTTER : GUTTER;
  }

  get fullWidth() {
    return this.paperWidth ?? this.ownWidth;
  }

  // Width of the lanes in pixels.
  get width() {
    return Math.max(this.fullWidth - this.gutter - RIGHT, 100);
  }

  get ratio() {
    return Math.min(window.devicePixelRatio || 1, 3);
  }

  // Resizes and clears a canvas; returns its context.
  cleared(canvas, width, height) {
    const { ratio } = this;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) {
      [canvas.width, canvas.height] = [wide, high];
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    canvas.style.marginLeft = `${this.gutter}px`;
    const context = canvas.getContext("2d", { alpha: true });
    context.clearRect(0, 0, wide, high);
    return context;
  }

  // Repeats the top lanes below the axis while they are scrolled out of sight and enough of the other lanes is in sight.
  pin(height, theme, texts) {
    const [{ top, bottom }, below] = [this.body.getBoundingClientRect(), this.head.getBoundingClientRect().bottom];
    this.pinned.hidden = !height || top >= below || bottom < below + height + PINNED_FROM || height > MOST_PINNED * window.innerHeight;
    if (this.pinned.hidden) return;
    const { ratio } = this;
    const context = this.cleared(this.pinned, this.fullWidth, height);
    this.pinned.style.marginLeft = 0;
    context.drawImage(this.canvas, this.gutter * ratio, 0);
    context.fillStyle = theme.text;
    context.textBaseline = "middle";
    for (const { text, middle, isHeading } of texts) {
      context.font = `${isHeading ? "600 " : ""}${LABEL_PIXELS * ratio}px ${theme.sans}`;
      context.textAlign = isHeading ? "left" : "right";
      context.fillText(text, (isHeading ? 4 : this.gutter - 6) * ratio, middle * ratio);
    }
  }

  // Pixels from the top of the lanes to a pointer; pinned lanes lie above the others.
  below({ clientY }) {
    const { top, bottom } = this.pinned.getBoundingClientRect();
    const isPinned = !this.pinned.hidden && clientY >= top && clientY < bottom;
    return clientY - (isPinned ? top : this.body.getBoundingClientRect().top);
  }

  // The part of the lanes on the screen, in pixels from their top, with a margin on both sides.
  inSight() {
    const { top } = this.body.getBoundingClientRect();
    return [-top - 200, window.innerHeight - top + 200];
  }
}


const LABEL_PIXELS = 13; // of text on the canvas: --small of page.css
const ROW = 20; // pixels of a lane
const BAR = 16; // pixels of its rectangles
const barOf = ({ source }) => (source === "memory" ? BAR + ROW : BAR); // an area needs more than a rectangle
const HEADING = 24; // pixels of a group's name
const GUTTER = 92; // pixels for the names of lanes
const NARROW = 600; // pixels; on a smaller timeline the names have less room
const NARROW_GUTTER = 82;
const RIGHT = 8; // pixels to the right of the lanes
const PINNED_FROM = 60; // pixels that pinned lanes leave to others, at least
const MOST_PINNED = 0.4; // of the window's height; more lanes are not pinned
const BELOW = 18; // pixels under the last lane, for the name of a mark
const TICK_PIXELS = 90;
const TICK_ROOM = 46; // pixels; a tick that is nearer to the right end has no text
const SHORTEST_VIEW = 20; // ns

// Sorts the lanes of pinned GPUs to the top, below the steps.
const gpusFirst = (lanes, gpus) => {
  const rank = ({ source, group }) => (source === "steps" ? 0 : gpus.has(group) ? 1 : 2);
  return gpus.size ? [...lanes].sort((one, other) => rank(one) - rank(other)) : lanes;
};

// Returns the tops of all headings and lanes in pixels: a heading for each group, then its lanes unless it is folded.
const layOut = (data, folded, isPinned) => {
  const headings = [];
  const tops = new Map();
  let top = 0;
  let pinned = 0; // height of the pinned lanes
  const gpus = new Set(data.lanes.filter(({ device }) => isPinned && device !== undefined).map(({ group }) => group));
  for (const lane of gpusFirst(data.lanes, gpus)) {
    if (headings.at(-1)?.group !== lane.group) {
      headings.push({ group: lane.group, top, lanes: 0 });
      top += HEADING;
    }
    headings.at(-1).lanes += 1;
    if (folded.has(lane.group)) continue;
    tops.set(lane, top);
    top += ROW - BAR + barOf(lane);
    if (gpus.has(lane.group)) pinned = top;
  }
  return { headings, tops, pinned, height: top + BELOW };
};

// The groups that are folded until somebody opens them: those marked, and those with no event in the first view.
const foldedAtFirst = (data, [from, to]) => {
  const isSeen = ({ start, end }) => {
    const at = firstAbove(end, from);
    return at < end.length && start[at] < to;
  };
  const open = new Set(data.lanes.filter((lane) => lane.folded !== true && isSeen(lane)).map((lane) => lane.group));
  return new Set(data.lanes.map((lane) => lane.group).filter((group) => !open.has(group)));
};

const clamped = ([from, to], [least, most]) => {
  const span = Math.min(Math.max(to - from, SHORTEST_VIEW), most - least);
  const start = Math.min(Math.max((from + to - span) / 2, least), most - span);
  return [start, start + span];
};

const widenedBy = ([from, to], share) => [from - share * (to - from), to + share * (to - from)];

const niceStep = (least) => {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
};

// The step from whose start the axis counts: the one in which the view begins, or the next if it is about to begin.
const referenceStep = (data, [from, to]) => {
  const { start } = data.steps;
  const next = firstAbove(start, from);
  return next < start.length && (next === 0 || start[next] <= from + 0.05 * (to - from)) ? next : Math.max(next - 1, 0);
};

// Returns the ticks [{ time, text }] and the title of the axis. Timelines with a common zero name it in `data.since`.
const axisOf = (data, view, width) => {
  const step = referenceStep(data, view);
  const zero = data.since ? 0 : (data.steps.start[step] ?? 0);
  const [from, to] = view.map((time) => time - zero);
  const gap = niceStep(((to - from) * TICK_PIXELS) / Math.max(width, TICK_PIXELS));
  const [scale, unit] = TIMES.find(([one]) => Math.max(Math.abs(from), Math.abs(to)) >= one) ?? TIMES.at(-1);
  const digits = Math.max(0, Math.ceil(Math.log10(scale / gap) - 1e-9));
  const ticks = [];
  for (let tick = Math.ceil(from / gap); tick * gap <= to; tick++) {
    ticks.push({ time: tick * gap + zero, text: `${((tick * gap) / scale).toFixed(digits)} ${unit}` });
  }
  const fine = Math.max(0, Math.ceil(Math.log10((scale * width) / (to - from)))); // digits that distinguish pixels
  const textOf = (time) => `${((time - zero) / scale).toFixed(Math.min(fine, Math.round(Math.log10(scale))))} ${unit}`;
  return { ticks, textOf, title: `since the start of ${data.since ?? data.steps.names[step] ?? "the trace"}` };
};

const WIDE_MARK = 160; // pixels; the name of a wider mark stands in its middle
const MARK_LINE = 2; // pixels

// Top and bottom of some lanes in pixels, undefined if none of them is shown.
const reachOf = (tops, lanes) => {
  const shown = lanes.filter((lane) => tops.has(lane));
  const ends = shown.map((lane) => tops.get(lane) + barOf(lane));
  return shown.length ? [Math.min(...shown.map((lane) => tops.get(lane))) - 1, Math.max(...ends) + 2] : undefined;
};

const paintMark = (painter, theme, { isIdle, start, end }, [top, bottom]) => {
  const { context, ratio } = painter;
  const [left, right] = [painter.x(start), Math.max(painter.x(end), painter.x(start) + 2 * ratio)];
  const shape = [left - ratio, top * ratio, right - left + 2 * ratio, (bottom - top) * ratio];
  if (isIdle) {
    context.fillStyle = BUBBLE;
    context.fillRect(...shape);
  }
  context.strokeStyle = theme.text;
  context.lineWidth = MARK_LINE * ratio;
  context.setLineDash(isIdle ? [6 * ratio, 4 * ratio] : []);
  context.strokeRect(...shape);
  context.setLineDash([]);
};

// Paints an arrow from the end of one event to the start of another.
const paintLink = (painter, theme, { from, to }, tops) => {
  if (!tops.has(from.lane) || !tops.has(to.lane)) return;
  const { context, ratio } = painter;
  const [x0, x1] = [painter.x(from.lane.end[from.first]), painter.x(to.lane.start[to.first])];
  const isDown = tops.get(from.lane) <= tops.get(to.lane);
  const y0 = (tops.get(from.lane) + (isDown ? barOf(from.lane) : 0)) * ratio;
  const y1 = (tops.get(to.lane) + (isDown ? 0 : barOf(to.lane))) * ratio;
  const bend = (y1 - y0) / 2;
  context.strokeStyle = context.fillStyle = theme.text;
  context.lineWidth = 1.5 * ratio;
  context.beginPath();
  context.moveTo(x0, y0);
  context.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
  context.stroke();
  const tip = (isDown ? -6 : 6) * ratio;
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x1 - 4 * ratio, y1 + tip);
  context.lineTo(x1 + 4 * ratio, y1 + tip);
  context.fill();
};

// Writes the names of marks above the canvas.
const nameMarks = (stage, view, marks, tops) => {
  const [from, to] = view;
  const scale = stage.width / (to - from);
  const shown = marks
    .map((mark) => ({ ...mark, reach: reachOf(tops, mark.lanes) }))
    .filter(({ reach, start, end }) => reach && start < to && end > from);
  fillChildren(stage.labels, "span", shown, (span, { what, isIdle, lanes, start, end, reach }) => {
    const [left, right] = [Math.max(start, from), Math.min(end, to)].map((time) => (time - from) * scale);
    const isWide = right - left > WIDE_MARK;
    const isBelow = lanes[0].source === "gpu" && !isIdle;
    setText(span, what);
    span.className = isWide ? "mark centred" : "mark";
    const narrow = Math.max(0, Math.min(left, stage.width - WIDE_MARK / 2));
    span.style.left = `${stage.gutter + (isWide ? (left + right) / 2 : narrow)}px`;
    span.style.top = `${isBelow ? reach[1] + 8 : Math.max(reach[0] - 8, 8)}px`;
  });
};
