// Draws the timelines of a page and lets people steer them. Texts of the trace only ever go into textContent.

const ZOOM = 1.6; // by one press of a key
const SHIFT = 0.2; // of the view, by one press of a key
const STILL = 4; // pixels; a mouse that moved less between down and up has clicked

// Plotly's own hover label does not wrap and is cut off on a small screen.
const showTip = (timeline, event) => {
  const tip = timeline.layer("tip");
  const cell = event.buttons ? undefined : timeline.at(event);
  tip.hidden = !cell;
  if (!cell) return;
  const [heading, ...lines] = wordsOf(timeline.data, cell);
  tip.replaceChildren(made("strong", "", heading), ...lines.map((line) => made("div", "", line)));
  const box = timeline.plot.getBoundingClientRect();
  const left = event.clientX - box.left;
  const onRight = left < box.width / 2;
  const room = onRight ? box.width - left : left;
  tip.style.maxWidth = `${Math.max(room - 16, Math.min(box.width, 300))}px`;
  const start = onRight ? left + 12 : left - 12 - tip.offsetWidth;
  tip.style.left = `${Math.max(0, Math.min(start, box.width - tip.offsetWidth))}px`;
  tip.style.top = `${event.clientY - box.top + 16}px`;
};

const onKey = (timeline) => (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select")) return;
  const [from, to] = timeline.view;
  const middle = (from + to) / 2;
  const half = (to - from) / 2;
  const zoom = (factor) => timeline.show([middle - half * factor, middle + half * factor]);
  const move = (share) => timeline.show([from + 2 * half * share, to + 2 * half * share]);
  const actions = {
    "+": () => zoom(1 / ZOOM),
    "=": () => zoom(1 / ZOOM),
    "-": () => zoom(ZOOM),
    ArrowLeft: () => move(-SHIFT),
    ArrowRight: () => move(SHIFT),
    PageUp: () => timeline.showStep(timeline.step - 1),
    PageDown: () => timeline.showStep(timeline.step + 1),
    0: () => timeline.show(timeline.whole),
    "/": () => timeline.root.querySelector(".find").focus(),
    Escape: () => timeline.clear(),
  };
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
};

// The steps, as the trace names them; those that are there in coarse are as good to go to.
const fillSteps = (timeline) => {
  const select = timeline.root.querySelector("select.step");
  const { names } = timeline.data.steps;
  for (const part of [".previous", ".next"]) timeline.root.querySelector(part).hidden = !names.length;
  select.parentElement.hidden = !names.length;
  select.append(new Option("several", "-1"), ...names.map((name, step) => new Option(name, String(step))));
  select.addEventListener("change", () => timeline.showStep(Number(select.value)));
};

const tellStep = (timeline, view) => {
  const { start, last } = timeline.data.steps;
  const step = timeline.step;
  const isOne = step >= 0 && view[1] - view[0] < 1.5 * (last[step] - start[step]);
  timeline.root.querySelector("select.step").value = isOne ? String(step) : "-1";
  const isAll = view[1] - view[0] >= 0.999 * (timeline.whole[1] - timeline.whole[0]);
  timeline.root.querySelector(".all").setAttribute("aria-pressed", String(isAll));
};

// Plotly's own legend takes its place from the lanes and cannot be used with keys.
const drawLegend = (timeline) => {
  const groups = new Map();
  for (const [code, { group, label, shades }] of Object.entries(timeline.data.kinds)) {
    if (!groups.has(group)) groups.set(group, made("li", "", `${group} `));
    const button = made("button", "");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    const swatch = made("span", "swatch");
    swatch.style.background = shades[0];
    button.append(swatch, label);
    button.addEventListener("click", () => {
      const kind = Number(code);
      if (!timeline.hidden.delete(kind)) timeline.hidden.add(kind);
      button.setAttribute("aria-pressed", String(!timeline.hidden.has(kind)));
      timeline.draw();
    });
    groups.get(group).append(button);
  }
  timeline.root.querySelector(".legend").append(...groups.values());
};

const steer = (timeline) => {
  const { root, plot } = timeline;
  const on = (part, type, action) => root.querySelector(part).addEventListener(type, action);
  on(".all", "click", () => timeline.show(timeline.whole));
  on(".previous", "click", () => timeline.showStep(timeline.step - 1));
  on(".next", "click", () => timeline.showStep(timeline.step + 1));
  on(".find", "input", (event) => timeline.search(event.target.value.trim()));
  on(".find", "keydown", (event) => {
    if (event.key === "Enter") timeline.nextMatch();
    if (event.key === "Escape") timeline.clear();
  });
  on(".found-next", "click", () => timeline.nextMatch());
  root.addEventListener("keydown", onKey(timeline));
  plot.addEventListener("mousemove", (event) => showTip(timeline, event));
  plot.addEventListener("mouseleave", () => (timeline.layer("tip").hidden = true));
  let down;
  plot.addEventListener("pointerdown", (event) => (down = event), true);
  document.addEventListener("pointerup", (event) => {
    const isStill = down && Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < STILL;
    const cell = isStill && down.target.closest(".nsewdrag") ? timeline.at(down) : undefined;
    down = undefined;
    if (cell) timeline.choose(cell);
  }, true);
  plot.on("plotly_doubleclick", () => timeline.show(timeline.first));
  plot.on("plotly_relayout", (change) => {
    const range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (range[0] !== undefined) timeline.show(range.map((time) => time * NS_PER_MS));
    else if (change.autosize) timeline.show(timeline.view, true);
  });
  plot.on("plotly_relayouting", () => timeline.layer("labels").replaceChildren());
};

const TIMELINES = new Map(); // by their elements, as promises

// Timelines of one page that share their view.
const share = (timeline, view) => {
  const word = timeline.root.dataset.shared;
  if (!word) return;
  for (const [root, other] of TIMELINES) {
    if (root !== timeline.root && root.dataset.shared === word) other.then((one) => one.show(view, true));
  }
};

const draw = async (root) => {
  await plotly();
  const timeline = new Timeline(root, await readTimeline(root.querySelector(".columns").textContent));
  timeline.onShow = (view) => share(timeline, view);
  fillSteps(timeline);
  drawLegend(timeline);
  await timeline.draw();
  timeline.layer("tip").hidden = true;
  steer(timeline);
  timeline.plot.on("plotly_afterplot", () => tellStep(timeline, timeline.view));
  tellStep(timeline, timeline.view);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.draw());
  root.dataset.drawn = "true";
  return timeline;
};

const drawOnce = (root) => {
  if (!TIMELINES.has(root)) {
    const drawing = draw(root);
    TIMELINES.set(root, drawing);
    drawing.catch((error) => {
      root.querySelector(".plot").textContent = `The timeline cannot be drawn in this browser: ${error.message}`;
      console.error(error);
    });
  }
  return TIMELINES.get(root);
};

const showFinding = async (button) => {
  const root = (button.closest("section") ?? document).querySelector(".timeline");
  if (!root) return;
  const timeline = await drawOnce(root);
  await timeline.showFinding(JSON.parse(button.dataset.zoom));
  root.scrollIntoView({ block: "start" });
  timeline.plot.focus({ preventScroll: true });
};

const observer = new IntersectionObserver(
  (entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      observer.unobserve(entry.target);
      drawOnce(entry.target);
    }
  },
  { rootMargin: "600px" },
);
for (const root of document.querySelectorAll(".timeline")) observer.observe(root);
for (const button of document.querySelectorAll("button[data-zoom]")) {
  button.addEventListener("click", () => showFinding(button));
}
