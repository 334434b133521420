// What is shown, for others: the view and what is chosen in it in the fragment of the page's address, of which a copied
// link opens the same; and as a picture.

const isAddressed = () => !location.protocol.startsWith("about") && !location.protocol.startsWith("blob");

const rounded = (times) => times.map(Math.round);

// Numbers that rise, as the first and the last of each run: folded lanes are left out between others.
const runsOf = (numbers) =>
  numbers.flatMap((number, at) => [
    ...(number - 1 === numbers[at - 1] ? [] : [number]),
    ...(number + 1 === numbers[at + 1] ? [] : [number]),
  ]);

// The fragment of the page's so many-th timeline.
const fragmentOf = (timeline, number) => {
  const { view, chosen, data } = timeline;
  const parts = [`t=${[number, ...rounded(view)].join()}`];
  if (chosen) parts.push(`e=${[data.lanes.indexOf(chosen.lane), chosen.at].join()}`);
  for (const one of drawnWith(timeline).filter(({ selection }) => selection)) {
    const lanes = one.selection.lanes.map((lane) => one.data.lanes.indexOf(lane));
    const of = one === timeline ? "" : roots().indexOf(one.root) + 1;
    parts.push(`s${of}=${[...rounded([one.selection.from, one.selection.to]), ...runsOf(lanes)].join()}`);
  }
  return `#${parts.join("&")}`;
};

const numbersOf = (text, count) => {
  const numbers = (text ?? "").split(",").map(Number);
  return text && (numbers.length === count || count === undefined) && numbers.every(Number.isFinite) ? numbers : undefined;
};

// What a fragment says, or nothing if it is of something else.
const readFragment = (text) => {
  const parts = new URLSearchParams(text.replace(/^#/, ""));
  const where = numbersOf(parts.get("t"), 3);
  if (!where || where[2] <= where[1]) return undefined;
  const areas = [...parts].map(([key, value]) => [/^s(\d*)$/.exec(key)?.[1], numbersOf(value)]).filter((area) => area[1]);
  return {
    number: where[0],
    view: where.slice(1),
    event: numbersOf(parts.get("e"), 2),
    areas: areas.filter(([of]) => of !== undefined).map(([of, area]) => [Number(of || where[0]), area]),
  };
};

const selectionOf = (timeline, [from, to, ...runs]) => {
  const isIn = (number) => runs.some((first, at) => at % 2 === 0 && first <= number && number <= runs[at + 1]);
  const lanes = timeline.data.lanes.filter((_, number) => isIn(number));
  for (const { group } of lanes) timeline.folded.delete(group);
  return lanes.length && to > from ? { from, to, lanes } : undefined;
};

const openFragment = async (timeline, { view, event, areas }) => {
  const { lanes } = timeline.data;
  if (areas.length) {
    const beside = areas.map(([number, area]) => [roots()[number - 1], area]);
    const known = beside.filter(([root]) => togetherWith(timeline.root).includes(root));
    const selections = known.map(async ([root, area]) => {
      const one = await drawOnce(root);
      return [one, selectionOf(one, area)];
    });
    timeline.selectIn(await Promise.all(selections));
  }
  const lane = event && lanes[event[0]];
  if (lane && event[1] < lane.size) {
    timeline.folded.delete(lane.group);
    timeline.choose(newCell(lane, event[1]));
  }
  return timeline.show(view);
};

// Writes the fragment when a timeline that somebody moved comes to rest; a page within a page has none.
const writeFragment = (timeline, number) => {
  if (!isAddressed() || !timeline.isLeading) return;
  const text = fragmentOf(timeline, number);
  if (location.hash === text) return;
  try {
    history.replaceState(history.state, "", text);
  } catch {
    timeline.isLeading = false; // a browser that forbids it
  }
};

const copyLink = async (timeline, number) => {
  timeline.isLeading = true;
  writeFragment(timeline, number);
  const said = timeline.root.querySelector(".found");
  try {
    await navigator.clipboard.writeText(location.href);
    said.textContent = "link copied";
  } catch {
    said.textContent = "copy the link from the address bar";
  }
};

const AXIS = 22; // pixels

const writeText = (context, text, x, y, { colour, font = "11px system-ui, sans-serif", align = "left" }) => {
  context.fillStyle = colour;
  context.font = font;
  context.textAlign = align;
  context.fillText(text, x, y);
};

// A canvas with the axis, the names and the lanes as they are shown.
const pictureOf = (timeline) => {
  timeline.paint(true);
  const { stage, placed, view } = timeline;
  const theme = themeOf(timeline.isOnPaper);
  const { ratio, gutter, width } = stage;
  const canvas = document.createElement("canvas");
  canvas.width = stage.canvas.width + (gutter + RIGHT) * ratio;
  canvas.height = stage.canvas.height + 2 * AXIS * ratio;
  const context = canvas.getContext("2d");
  context.fillStyle = theme.card;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(stage.canvas, gutter * ratio, AXIS * ratio);
  context.scale(ratio, ratio);
  context.textBaseline = "middle";
  const { ticks, title } = axisOf(timeline.data, view, width);
  const x = (time) => gutter + ((time - view[0]) / (view[1] - view[0])) * width;
  for (const { time, text } of ticks) writeText(context, text, x(time) + 3, AXIS / 2, { colour: theme.muted });
  for (const [{ label }, top] of placed.tops) {
    writeText(context, label ?? "", gutter - 6, AXIS + top + BAR / 2, { colour: theme.muted, align: "right" });
  }
  for (const { group, top } of placed.headings) {
    writeText(context, group, 4, AXIS + top + HEADING / 2, { colour: theme.text, font: "600 12px system-ui, sans-serif" });
  }
  writeText(context, timeline.root.dataset.name, 4, AXIS / 2, { colour: theme.text, font: "600 12px system-ui, sans-serif" });
  writeText(context, title, gutter + width / 2, canvas.height / ratio - AXIS / 2, { colour: theme.muted, align: "center" });
  return canvas;
};

// Pictures of timelines, under each other.
const under = (canvases) => {
  if (canvases.length === 1) return canvases[0];
  const whole = document.createElement("canvas");
  whole.width = Math.max(...canvases.map(({ width }) => width));
  whole.height = canvases.reduce((sum, { height }) => sum + height, 0);
  let top = 0;
  for (const canvas of canvases) {
    whole.getContext("2d").drawImage(canvas, 0, top);
    top += canvas.height;
  }
  return whole;
};

const savePicture = (timelines) =>
  under(timelines.map(pictureOf)).toBlob((blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = "timeline.png";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  });
