// Gives the two timelines of a comparison one time axis: zooming one zooms the other. They begin with one step of each,
// in a frame. Stands before the script that draws the timelines, and tells that the ranges by their buttons.
"use strict";
(() => {
  const SAME = 1e-6; // of a range; less is rounding
  const MARGIN = 0.02; // of a step, shown before and after it
  const linked = document.querySelector(".linked");
  const timelines = [...linked.querySelectorAll(".timeline")];
  const steps = JSON.parse(linked.dataset.steps); // length in ms and in words, null where there is none
  const longest = Math.max(0, ...steps.map((step) => (step ? step[0] : 0)));
  const oneStep = longest > 0 ? [-MARGIN * longest, (1 + MARGIN) * longest] : null;

  const shareRanges = () => {
    const buttons = timelines.map((timeline) => [...timeline.querySelectorAll("button[data-range]")]);
    const ranges = buttons.map(([all]) => JSON.parse(all.dataset.range));
    const common = [Math.min(...ranges.map((range) => range[0])), Math.max(...ranges.map((range) => range[1]))];
    for (const [all, ...others] of buttons) {
      all.dataset.range = JSON.stringify(common);
      for (const other of others) other.remove();
      if (!oneStep) continue;
      const button = all.cloneNode();
      button.dataset.range = JSON.stringify(oneStep);
      button.textContent = "one step";
      all.after(button);
    }
  };

  const rangeOf = (plot) => plot.layout.xaxis.range.map(Number);
  const follow = (leader, follower) => {
    const [from, to] = rangeOf(leader);
    const [start, end] = rangeOf(follower);
    const near = SAME * Math.abs(to - from);
    if (Math.abs(from - start) <= near && Math.abs(to - end) <= near) return;
    Plotly.relayout(follower, { "xaxis.range": [from, to] });
  };

  const frame = ([length, words], colour) => ({
    type: "rect",
    xref: "x",
    yref: "paper",
    x0: 0,
    x1: length,
    y0: 0,
    y1: 1,
    layer: "above",
    line: { color: colour, width: 1.5, dash: "dot" },
    label: { text: `a step: ${words}`, textposition: "top right", font: { color: colour, size: 12 } },
  });

  const link = async () => {
    const plots = timelines.map((timeline) => timeline.querySelector(".plot"));
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--link").trim();
    for (const [index, plot] of plots.entries()) {
      const view = oneStep ? { "xaxis.range": [...oneStep] } : {};
      const shapes = steps[index] ? [frame(steps[index], colour)] : [];
      await Plotly.relayout(plot, { ...view, shapes });
    }
    for (const leader of plots) {
      leader.on("plotly_relayout", () => {
        for (const follower of plots) if (follower !== leader) follow(leader, follower);
      });
    }
    for (const timeline of timelines) timeline.dataset.linked = "true";
  };

  if (timelines.length < 2) return;
  shareRanges();
  const observer = new MutationObserver(() => {
    if (timelines.some((timeline) => timeline.dataset.drawn !== "true")) return;
    observer.disconnect();
    link();
  });
  for (const timeline of timelines) observer.observe(timeline, { attributeFilter: ["data-drawn"] });
})();
