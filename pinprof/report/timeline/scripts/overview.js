// The strip above the lanes: the whole recording with a window around the view.

const STRIP = 9; // pixels of a lane in the strip
const STRIPS = 4; // lanes in it at most, of each recording
const STRIPS_OF_SEVERAL = 2; // lanes of each recording, if there are several
const TENTH = 0.1; // of the window, by which a key moves an edge of it
const GRIP = 6; // pixels on each side of an edge of the window in which a pointer takes it

// The waits of the first thread, then the overlap band of each GPU; without these, the first lanes.
const lanesOfStrip = (data) => {
  const stalls = data.lanes.filter((lane) => lane.source === "stalls").slice(0, 1);
  const groups = new Map();
  for (const lane of data.lanes) if (lane.device !== undefined && !groups.has(lane.group)) groups.set(lane.group, lane);
  for (const lane of data.lanes) if (lane.source === "overlap") groups.set(lane.group, lane);
  const lanes = [...stalls, ...groups.values()].slice(0, STRIPS);
  return lanes.length ? lanes : data.lanes.filter((lane) => lane.source !== "steps").slice(0, 2);
};

class Overview {
  constructor(timeline) {
    this.timeline = timeline;
    this.lanesOf = new Map(); // by timeline
    this.drawn = document.createElement("canvas");
    this.state = undefined;
  }

  // The lanes in the strip from the top: [[timeline, lane]].
  get lanes() {
    const timelines = seenWith(this.timeline);
    const most = timelines.length > 1 ? STRIPS_OF_SEVERAL : STRIPS;
    return (timelines.length ? timelines : [this.timeline]).flatMap((one) => {
      if (!this.lanesOf.has(one)) this.lanesOf.set(one, lanesOfStrip(one.data));
      return this.lanesOf.get(one).slice(0, most).map((lane) => [one, lane]);
    });
  }

  get height() {
    return this.lanes.length * (STRIP + 2) + 4;
  }

  // The picture of the whole recording, painted again only when it changes.
  picture(width, ratio, theme) {
    const { timeline } = this;
    const { lanes } = this;
    const versions = lanes.map(([one]) => one.version + one.root.dataset.name);
    const state = [width, ratio, theme.text, ...timeline.whole, ...versions].join();
    if (state === this.state) return this.drawn;
    this.state = state;
    [this.drawn.width, this.drawn.height] = [Math.round(width * ratio), Math.round(this.height * ratio)];
    const context = this.drawn.getContext("2d");
    lanes.forEach(([one, lane], at) => {
      const painter = new Painter(one.data, context, { view: timeline.whole, width, ratio, isDark: theme.isDark });
      painter.row(one.rowOf(lane), 2 + at * (STRIP + 2), STRIP);
    });
    this.paintMatches(context, theme, width * ratio, ratio);
    return this.drawn;
  }

  // Places of the window's edges, in pixels.
  edges(width) {
    const [least, most] = this.timeline.whole;
    return this.timeline.view.map((time) => ((Math.min(Math.max(time, least), most) - least) / (most - least)) * width);
  }

  paint(theme) {
    const { stage } = this.timeline;
    const { width, ratio } = stage;
    const context = stage.cleared(stage.overview, width, this.height);
    context.drawImage(this.picture(width, ratio, theme), 0, 0);
    const [left, right] = this.edges(width).map((place) => Math.round(place * ratio));
    const high = this.height * ratio;
    context.fillStyle = theme.card;
    context.globalAlpha = 0.6;
    context.fillRect(0, 0, left, high);
    context.fillRect(right, 0, width * ratio - right, high);
    context.globalAlpha = 1;
    context.strokeStyle = theme.link;
    context.lineWidth = 2 * ratio;
    context.strokeRect(left, ratio, Math.max(right - left, 2 * ratio), high - 2 * ratio);
  }

  // Paints a tick at each match.
  paintMatches(context, theme, wide, ratio) {
    const [least, most] = this.timeline.whole;
    const places = new Set();
    for (const { finder } of drawnWith(this.timeline)) {
      for (const { lane, at } of finder.flags ? finder.matches : []) {
        places.add(Math.round(((lane.start[at] - least) / (most - least)) * wide));
      }
    }
    context.fillStyle = theme.text;
    for (const place of places) context.fillRect(place, this.height * ratio * 0.6, ratio, this.height * ratio);
  }

  timeAt(x) {
    const [least, most] = this.timeline.whole;
    return least + (x / this.timeline.stage.width) * (most - least);
  }

  // The part of the strip under a pointer: an edge, the window, or neither ("free").
  partAt(x) {
    const [left, right] = this.edges(this.timeline.stage.width);
    const isThin = right - left < 3 * GRIP;
    if (!isThin && Math.abs(x - left) <= GRIP) return "left";
    if (!isThin && Math.abs(x - right) <= GRIP) return "right";
    return x >= left - (isThin ? GRIP : 0) && x <= right + (isThin ? GRIP : 0) ? "window" : "free";
  }

  // The view after a part is dragged from `began` to `x`; outside the window a drag draws a new one.
  dragged(part, view, began, x) {
    const moved = this.timeAt(x) - this.timeAt(began);
    if (part === "window") return view.map((time) => time + moved);
    const sorted = (one, other) => (one < other ? [one, other] : [other, one]);
    if (part === "left") return sorted(view[0] + moved, view[1]);
    if (part === "right") return sorted(view[0], view[1] + moved);
    return sorted(this.timeAt(began), this.timeAt(x));
  }

  listen() {
    const canvas = this.timeline.stage.overview;
    let taken;
    const place = (event) => event.clientX - canvas.getBoundingClientRect().left;
    canvas.addEventListener("pointerdown", (event) => {
      const x = place(event);
      taken = { part: this.partAt(x), view: this.timeline.view, x };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const x = place(event);
      if (!taken) {
        const part = this.partAt(x);
        canvas.style.cursor = { left: "ew-resize", right: "ew-resize", window: "grab", free: "crosshair" }[part];
      } else if (taken.part !== "free" || Math.abs(x - taken.x) >= STILL) {
        this.timeline.show(this.dragged(taken.part, taken.view, taken.x, x));
      }
    });
    const letGo = (event) => {
      const x = place(event);
      if (event.type === "pointerup" && taken?.part === "free" && Math.abs(x - taken.x) < STILL) this.goTo(x);
      taken = undefined;
    };
    canvas.addEventListener("pointerup", letGo);
    canvas.addEventListener("pointercancel", letGo);
    canvas.addEventListener("keydown", (event) => {
      const view = event.ctrlKey || event.metaKey || event.altKey ? undefined : this.byKey(event);
      if (!view) return;
      this.timeline.show(view);
      event.preventDefault();
    });
  }

  // The view after a key of the strip; the keys of the lanes also work here.
  byKey({ key, shiftKey }) {
    const [from, to] = this.timeline.view;
    const [least, most] = this.timeline.whole;
    const span = to - from;
    const edge = { ArrowLeft: -TENTH * span, ArrowRight: TENTH * span }[key];
    if (shiftKey && edge) return [from, to + edge];
    return {
      Home: [least, least + span],
      End: [most - span, most],
      PageUp: [from - span, to - span],
      PageDown: [from + span, to + span],
    }[key];
  }

  // Tells screen readers where the window is.
  announce() {
    const { view, whole, stage } = this.timeline;
    const [least, most] = whole;
    const [from, to] = view.map((time) => duration(Math.max(time - least, 0)));
    stage.overview.setAttribute("aria-valuenow", String(Math.round((100 * (view[0] - least)) / (most - least))));
    stage.overview.setAttribute("aria-valuetext", `${from} to ${to} of ${duration(most - least)}`);
  }

  // Centres the window on a place; its length stays.
  goTo(x) {
    const [from, to] = this.timeline.view;
    const half = (to - from) / 2;
    this.timeline.show([this.timeAt(x) - half, this.timeAt(x) + half]);
  }
}
