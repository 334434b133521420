// The elements that a timeline is drawn on: canvases, and above them what is text or can be pressed.

const made = (tag, className, text = "") => {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
};

// As many children as there are things, each filled by `fill`; elements are kept, since a frame has no time to make them.
const filled = (parent, tag, things, fill) => {
  while (parent.children.length > things.length) parent.lastChild.remove();
  while (parent.children.length < things.length) parent.append(made(tag, ""));
  things.forEach((thing, at) => fill(parent.children[at], thing));
};

const setText = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

class Stage {
  constructor(plot) {
    this.plot = plot;
    this.head = made("div", "head");
    this.overview = made("canvas", "overview");
    this.overview.tabIndex = 0;
    const spoken = { role: "slider", "aria-label": "Window in the whole recording", "aria-valuemin": "0", "aria-valuemax": "100" };
    for (const [name, value] of Object.entries(spoken)) this.overview.setAttribute(name, value);
    this.ticks = made("div", "ticks");
    this.now = made("div", "now"); // the time at the pointer
    this.now.setAttribute("aria-hidden", "true");
    this.head.append(this.overview, this.ticks, this.now);
    this.body = made("div", "body");
    this.canvas = made("canvas", "rows");
    this.canvas.setAttribute("aria-hidden", "true");
    this.names = made("div", "names");
    this.labels = made("div", "labels");
    this.headings = made("div", "headings");
    this.rubber = made("div", "rubber");
    this.cursor = made("div", "cursor");
    this.tip = made("div", "tip");
    this.title = made("div", "xtitle");
    this.tip.hidden = this.rubber.hidden = this.cursor.hidden = this.now.hidden = true;
    this.body.append(this.canvas, this.names, this.rubber, this.cursor, this.labels, this.headings, this.tip);
    plot.replaceChildren(this.head, this.body, this.title);
    this.paperWidth = undefined;
    this.measure();
  }

  // Asks how wide the plot is: not in each frame, since the browser has to lay out the page to tell.
  measure() {
    this.ownWidth = this.plot.clientWidth;
  }

  get gutter() {
    return this.fullWidth < NARROW ? NARROW_GUTTER : GUTTER;
  }

  get fullWidth() {
    return this.paperWidth ?? this.ownWidth;
  }

  // Pixels of the lanes.
  get width() {
    return Math.max(this.fullWidth - this.gutter - RIGHT, 100);
  }

  get ratio() {
    return Math.min(window.devicePixelRatio || 1, 3);
  }

  // Gives a canvas its size and an empty surface.
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

  // The part of the lanes that is on the screen, from the top, in pixels, with some more on both sides.
  inSight() {
    const { top } = this.body.getBoundingClientRect();
    return [-top - 200, window.innerHeight - top + 200];
  }
}
