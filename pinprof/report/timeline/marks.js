// Marks of a finding or of what was clicked: outlines, their names, and a line from a launch to its work.

const WIDE_MARK = 160; // pixels; on what is wider, the name of a mark stands in the middle
const MARK_LINE = 2; // pixels
const BUBBLE = "rgba(204,121,167,0.25)";

// Top and bottom of some lanes, in pixels; nothing if none of them is shown.
const reachOf = (tops, lanes) => {
  const shown = lanes.filter((lane) => tops.has(lane)).map((lane) => tops.get(lane));
  return shown.length ? [Math.min(...shown) - 1, Math.max(...shown) + BAR + 2] : undefined;
};

const paintMark = (painter, theme, { what, start, end }, [top, bottom]) => {
  const { context, ratio } = painter;
  const [left, right] = [painter.x(start), Math.max(painter.x(end), painter.x(start) + 2 * ratio)];
  const shape = [left - ratio, top * ratio, right - left + 2 * ratio, (bottom - top) * ratio];
  const isBubble = what === "GPU idle after";
  if (isBubble) {
    context.fillStyle = BUBBLE;
    context.fillRect(...shape);
  }
  context.strokeStyle = theme.text;
  context.lineWidth = MARK_LINE * ratio;
  context.setLineDash(isBubble ? [6 * ratio, 4 * ratio] : []);
  context.strokeRect(...shape);
  context.setLineDash([]);
};

// An arrow from the end of one event to the start of another.
const paintLink = (painter, theme, { from, to }, tops) => {
  if (!tops.has(from.lane) || !tops.has(to.lane)) return;
  const { context, ratio } = painter;
  const [x0, x1] = [painter.x(from.lane.end[from.first]), painter.x(to.lane.start[to.first])];
  const isDown = tops.get(from.lane) <= tops.get(to.lane);
  const y0 = (tops.get(from.lane) + (isDown ? BAR : 0)) * ratio;
  const y1 = (tops.get(to.lane) + (isDown ? 0 : BAR)) * ratio;
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

// Names of marks, as text above the canvas.
const nameMarks = (stage, view, marks, tops) => {
  const [from, to] = view;
  const scale = stage.width / (to - from);
  const shown = marks
    .map((mark) => ({ ...mark, reach: reachOf(tops, mark.lanes) }))
    .filter(({ reach, start, end }) => reach && start < to && end > from);
  filled(stage.labels, "span", shown, (span, { what, lanes, start, end, reach }) => {
    const [left, right] = [Math.max(start, from), Math.min(end, to)].map((time) => (time - from) * scale);
    const isWide = right - left > WIDE_MARK;
    const isBelow = lanes[0].source === "gpu" && what !== "GPU idle after";
    setText(span, what);
    span.className = isWide ? "mark centred" : "mark";
    const narrow = Math.max(0, Math.min(left, stage.width - WIDE_MARK / 2));
    span.style.left = `${stage.gutter + (isWide ? (left + right) / 2 : narrow)}px`;
    span.style.top = `${isBelow ? reach[1] + 8 : Math.max(reach[0] - 8, 8)}px`;
  });
};
