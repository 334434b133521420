// Draws the timelines of a page and lets people steer them. Texts of the trace only ever go into textContent.

// Fills the list of steps with their names in the trace.
const fillSteps = (timeline) => {
  const select = timeline.root.querySelector("select.step");
  const { names } = timeline.data.steps;
  for (const part of [".previous", ".next"]) timeline.root.querySelector(part).hidden = !names.length;
  select.parentElement.hidden = !names.length;
  select.append(new Option("several", "-1"), ...names.map((name, step) => new Option(name, String(step))));
  select.addEventListener("change", () => timeline.showStep(Number(select.value)));
};

const showStepChosen = (timeline, view) => {
  const { start, last } = timeline.data.steps;
  const step = timeline.step;
  const isOne = step >= 0 && view[1] - view[0] < 1.5 * (last[step] - start[step]);
  timeline.root.querySelector("select.step").value = isOne ? String(step) : "-1";
  const isAll = view[1] - view[0] >= 0.999 * (timeline.whole[1] - timeline.whole[0]);
  timeline.root.querySelector(".all").setAttribute("aria-pressed", String(isAll));
};

// Draws the legend of the timelines that share a view: buttons that hide and show a kind.
const drawLegend = (timeline) => {
  const groups = new Map();
  const kinds = Object.assign({}, ...drawnWith(timeline).map(({ data }) => data.kinds));
  for (const [code, { group, label, shades, pattern, ink, dark }] of Object.entries(kinds)) {
    if (!groups.has(group)) groups.set(group, newElement("li", "", `${group} `));
    const button = newButton("", () => {
      toggleInAll(timeline, Number(code));
      button.setAttribute("aria-pressed", String(!timeline.hidden.has(Number(code))));
    });
    button.setAttribute("aria-pressed", String(!timeline.hidden.has(Number(code))));
    const swatch = newElement("span", "swatch hue");
    swatch.style.setProperty("--light", shades[0]);
    swatch.style.setProperty("--dark", dark.shades[0]);
    if (pattern) swatch.classList.add("hatched");
    swatch.style.setProperty("--angle", `${HATCHES[pattern] ?? 0}deg`);
    swatch.style.setProperty("--ink", ink);
    button.append(swatch, label);
    groups.get(group).append(button);
  }
  timeline.root.querySelector(".legend").replaceChildren(...groups.values());
};

const chooseTool = (timeline, tool) => {
  timeline.tool = tool;
  timeline.plot.classList.toggle("selecting", tool === "select");
  for (const button of timeline.root.querySelectorAll("[data-tool]")) {
    button.setAttribute("aria-pressed", String(button.dataset.tool === tool));
  }
};

const steer = (timeline, number) => {
  const { root } = timeline;
  const on = (part, type, action) => root.querySelector(part).addEventListener(type, action);
  for (const button of root.querySelectorAll("[data-tool]")) {
    button.addEventListener("click", () => drawnWith(timeline).forEach((one) => chooseTool(one, button.dataset.tool)));
  }
  on(".pin", "click", ({ currentTarget }) => {
    for (const one of drawnWith(timeline)) one.pinGpus();
    currentTarget.setAttribute("aria-pressed", String(timeline.isPinned));
  });
  root.querySelector(".pin").setAttribute("aria-pressed", String(timeline.isPinned));
  addEventListener("scroll", () => timeline.pin(), { passive: true });
  on(".back", "click", () => timeline.history.go(-1));
  on(".forward", "click", () => timeline.history.go(1));
  on(".closer", "click", () => timeline.zoom(1 / ZOOM));
  on(".further", "click", () => timeline.zoom(ZOOM));
  on(".all", "click", () => showAll(timeline));
  on(".previous", "click", () => timeline.showStep(timeline.step - 1));
  on(".next", "click", () => timeline.showStep(timeline.step + 1));
  on(".find", "input", (event) => searchAll(timeline, event.target.value));
  on(".find", "keydown", (event) => {
    if (event.key === "Enter") timeline.nextMatch(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") {
      clearAll(timeline);
      timeline.plot.focus({ preventScroll: true });
    }
  });
  on(".found-next", "click", (event) => timeline.nextMatch(event.shiftKey ? -1 : 1));
  on(".link", "click", () => {
    const linked = linkedOf(timeline);
    copyLink(linked, roots().indexOf(linked.root) + 1);
  });
  on(".help", "click", showKeys);
  root.querySelector(".link").hidden = !isAddressed();
  timeline.pointers = new Pointers(timeline);
  timeline.overview.listen();
  timeline.motion = new Motion(timeline);
  timeline.history = new ViewHistory(timeline);
  timeline.settled.push(() => showStepChosen(timeline, timeline.view), () => writeFragment(timeline, number));
  new ResizeObserver(() => {
    timeline.stage.measure();
    timeline.draw();
  }).observe(timeline.plot);
};

const PAPER_WIDTH = 660; // pixels

const draw = async (root) => {
  const timeline = new Timeline(root, await readTimeline(root.querySelector(".columns").textContent));
  timeline.onShow = (view) => showInOthers(timeline, view);
  fillSteps(timeline);
  steer(timeline, roots().indexOf(root) + 1);
  await timeline.draw();
  showStepChosen(timeline, timeline.view);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.draw());
  DRAWN.set(root, timeline);
  adoptShared(timeline);
  root.dataset.drawn = "true";
  return timeline;
};

const drawOnce = (root) => {
  if (!TIMELINES.has(root)) {
    const drawing = draw(root);
    TIMELINES.set(root, drawing);
    const failed = (error) => {
      root.querySelector(".plot").textContent = `The timeline cannot be drawn in this browser: ${error.message}`;
      console.error(error);
    };
    drawing.catch(failed);
  }
  return TIMELINES.get(root);
};

const showFinding = async (button) => {
  const root = (button.closest("section") ?? document).querySelector(".timeline");
  if (!root) return;
  const timeline = await drawOnce(root);
  root.scrollIntoView({ block: "start" });
  await timeline.showInstance(JSON.parse(button.dataset.zoom));
  timeline.plot.focus({ preventScroll: true });
};

arrangeTools();
onceNear(roots(), drawOnce);
for (const button of document.querySelectorAll("button[data-zoom]")) {
  button.addEventListener("click", () => showFinding(button));
}

// Keys steer the timeline with the focus, or the first one on the screen; some also one that is scrolled out of sight.
const inFocus = () => document.activeElement?.closest(".timeline");
const isSeen = (root) => {
  const { top, bottom } = root.querySelector(".plot").getBoundingClientRect();
  return bottom > 0 && top < window.innerHeight;
};

document.addEventListener("keydown", async (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || isWriting(event.target) || isTaken(event.target, event.key)) return;
  const key = nameOfKey(event);
  if (key === "?") {
    showKeys();
    event.preventDefault();
    return;
  }
  if (!WHILE_HELD[key] && !ON_PRESS[key]) return;
  if (SCROLLS_PAGE.has(key) && !inFocus()) return;
  const near = inFocus() ?? roots().find(isSeen);
  const root = near ?? (NEEDS_TIMELINE_IN_SIGHT.has(key) ? undefined : roots().find(({ offsetParent }) => offsetParent));
  if (!root) return;
  if (!near) root.scrollIntoView({ block: "start" });
  const known = DRAWN.get(root);
  if (known && event.altKey) onAlt(known, event);
  else if (known) press(known, event);
  else if (!event.altKey) {
    event.preventDefault();
    press(await drawOnce(root), event);
  }
});
const releaseAll = () => DRAWN.forEach((timeline) => timeline.motion.releaseAll());
document.addEventListener("keyup", ({ code }) => DRAWN.forEach((timeline) => timeline.motion.release(code)));
addEventListener("blur", releaseAll);
document.addEventListener("focusin", (event) => isWriting(event.target) && releaseAll());

// Paper has neither a dark mode nor the width of the screen.
const onPaper = (isOnPaper) => {
  for (const timeline of DRAWN.values()) {
    timeline.isOnPaper = isOnPaper;
    timeline.stage.paperWidth = isOnPaper ? PAPER_WIDTH : undefined;
    timeline.paint(true);
  }
};
// On paper nothing can be opened, scrolled to or hovered over; call stacks and long tables stay folded.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open]):not(td details):not(.long)")];
  for (const details of opened) details.open = true;
  onPaper(true);
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
  onPaper(false);
});

const openAddress = async () => {
  const wanted = isAddressed() ? readFragment(location.hash) : undefined;
  const root = wanted && roots()[wanted.number - 1];
  if (!root) return;
  const timeline = await drawOnce(root);
  await openFragment(timeline, wanted);
  root.scrollIntoView({ block: "start" });
};
addEventListener("hashchange", openAddress);
openAddress();
