// Saves what a timeline shows as a picture.

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
