// Draws the timelines of a pinprof page. Texts of the trace come either escaped for plotly or go into textContent.
"use strict";
(() => {
  const ZOOM = 1.6; // by one press of a key
  const SHIFT = 0.2; // of the view, by one press of a key
  const LEAST = 2; // pixels; so much of a rectangle can be seen and pointed at
  const LABEL_MIN = 34; // pixels; narrower rectangles have no label
  const LABEL_PADDING = 3; // pixels

  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).json();
  };

  const theme = () => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    return {
      "font.color": colour("--text"),
      "xaxis.gridcolor": colour("--line"),
      "modebar.bgcolor": "transparent",
      "modebar.color": colour("--muted"),
      "modebar.activecolor": colour("--text"),
    };
  };

  const applyTheme = (layout) => {
    for (const [path, value] of Object.entries(theme())) {
      const keys = path.split(".");
      const last = keys.pop();
      keys.reduce((part, key) => (part[key] ??= {}), layout)[last] = value;
    }
  };

  // The drawn rectangles: edges are start, end, start, end, … in ms, exact; codes number the labels.
  const readLanes = (plot) =>
    plot._fullData.flatMap((trace, index) =>
      trace.type === "heatmap" ? [{ index, trace, edges: Float64Array.from(trace.x), codes: trace.customdata[0] }] : [],
    );

  // Plotly leaves out what is much narrower than a pixel: such rectangles are widened, as far as the next one.
  const widened = (edges, least) => {
    const wide = edges.slice();
    for (let cell = 0; cell < wide.length; cell += 2) {
      const next = cell + 2 < wide.length ? edges[cell + 2] : Infinity;
      wide[cell + 1] = Math.max(edges[cell + 1], Math.min(edges[cell] + least, next));
    }
    return wide;
  };

  const fitToPixels = (plot, lanes) => {
    const [from, to] = plot.layout.xaxis.range;
    const least = (LEAST * (to - from)) / plot._fullLayout._size.w;
    const x = lanes.map((lane) => widened(lane.edges, least));
    return Plotly.restyle(plot, { x }, lanes.map((lane) => lane.index));
  };

  // Names in the rectangles that are wide enough in the present view, as a layer of its own above the plot.
  const drawLabels = (plot, lanes, layer) => {
    const { xaxis, yaxis, _size: size } = plot._fullLayout;
    const [from, to] = xaxis.range;
    const found = document.createDocumentFragment();
    for (const { index, edges, codes } of lanes) {
      const trace = plot._fullData[index];
      if (trace.visible !== true) continue;
      const top = size.t + yaxis.l2p((trace.y[0] + trace.y[1]) / 2);
      for (let cell = 0; cell < codes.length; cell += 2) {
        if (edges[cell + 1] < from || edges[cell] > to) continue;
        const left = xaxis.l2p(Math.max(edges[cell], from));
        const width = xaxis.l2p(Math.min(edges[cell + 1], to)) - left;
        if (width < LABEL_MIN) continue;
        const span = document.createElement("span");
        span.textContent = plot.layout.meta.labels[codes[cell]];
        span.style.color = trace.meta.ink;
        span.style.left = `${size.l + left + LABEL_PADDING}px`;
        span.style.top = `${top}px`;
        span.style.width = `${width - 2 * LABEL_PADDING}px`;
        found.append(span);
      }
    }
    layer.replaceChildren(found);
  };

  // Plotly's own hover label does not wrap and is cut off on a small screen.
  const showTip = (plot, tip) => ({ points: [point], event }) => {
    const [row, column] = point.pointNumber;
    tip.innerHTML = plot.data[point.curveNumber].hovertext[row][column]; // escaped where it was written
    tip.hidden = false;
    const box = plot.getBoundingClientRect();
    const left = event.clientX - box.left;
    const onRight = left < box.width / 2;
    const room = onRight ? box.width - left : left;
    tip.style.maxWidth = `${Math.max(room - 16, Math.min(box.width, 300))}px`;
    const start = onRight ? left + 12 : left - 12 - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(start, box.width - tip.offsetWidth))}px`;
    tip.style.top = `${event.clientY - box.top + 16}px`;
  };

  const show = (plot, from, to) => Plotly.relayout(plot, { "xaxis.range": [from, to] });

  const onKey = (plot, whole) => (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = plot.layout.xaxis.range;
    const middle = (from + to) / 2;
    const half = (to - from) / 2;
    const views = {
      "+": [middle - half / ZOOM, middle + half / ZOOM],
      "-": [middle - half * ZOOM, middle + half * ZOOM],
      ArrowLeft: [from - 2 * half * SHIFT, to - 2 * half * SHIFT],
      ArrowRight: [from + 2 * half * SHIFT, to + 2 * half * SHIFT],
      0: whole,
    };
    views["="] = views["+"];
    const view = views[event.key];
    if (!view) return;
    event.preventDefault();
    show(plot, Math.max(view[0], whole[0]), Math.min(view[1], whole[1]));
  };

  const markButton = (buttons, range) => {
    const near = (a, b) => Math.abs(a - b) < 1e-6 * Math.abs(range[1] - range[0]);
    for (const button of buttons) {
      const [from, to] = JSON.parse(button.dataset.range);
      button.setAttribute("aria-pressed", String(near(from, range[0]) && near(to, range[1])));
    }
  };

  // Plotly's own legend takes its place from the lanes and cannot be used with keys.
  const drawLegend = (plot, legend) => {
    const groups = new Map();
    for (const entry of plot.data.filter((one) => one.showlegend)) {
      const [group] = entry.legendgroup.split(": ");
      if (!groups.has(group)) {
        const item = document.createElement("li");
        item.append(`${group} `);
        groups.set(group, item);
        legend.append(item);
      }
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      const swatch = document.createElement("span");
      swatch.className = "swatch";
      swatch.style.background = entry.marker.color;
      button.append(swatch, entry.name);
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        const members = plot.data.flatMap((one, index) => (one.legendgroup === entry.legendgroup ? [index] : []));
        Plotly.restyle(plot, { visible: shown }, members);
      });
      groups.get(group).append(button);
    }
  };

  const draw = async (timeline) => {
    const plot = timeline.querySelector(".plot");
    const buttons = [...timeline.querySelectorAll("button[data-range]")];
    const { data, layout } = await unpack(timeline.querySelector(".figure").textContent);
    const whole = JSON.parse(buttons[0].dataset.range);
    layout.xaxis.range = [...whole];
    layout.showlegend = false;
    if (matchMedia("(pointer: coarse)").matches) layout.dragmode = false; // a finger scrolls the page
    applyTheme(layout);
    await Plotly.newPlot(plot, data, layout, {
      displaylogo: false,
      responsive: true,
      doubleClick: "reset",
      modeBarButtons: [["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"], ["toImage"]],
    });
    const [labels, tip] = ["labels", "tip"].map((name) => {
      const layer = document.createElement("div");
      layer.className = name;
      plot.append(layer);
      return layer;
    });
    tip.hidden = true;
    const lanes = readLanes(plot);
    const fit = () => {
      markButton(buttons, plot.layout.xaxis.range);
      return fitToPixels(plot, lanes);
    };
    drawLegend(plot, timeline.querySelector(".legend"));
    plot.on("plotly_afterplot", () => drawLabels(plot, lanes, labels));
    plot.on("plotly_relayout", fit);
    plot.on("plotly_relayouting", () => labels.replaceChildren());
    plot.on("plotly_hover", showTip(plot, tip));
    plot.on("plotly_unhover", () => (tip.hidden = true));
    await fit();
    plot.addEventListener("keydown", onKey(plot, whole));
    for (const button of buttons) {
      button.addEventListener("click", () => show(plot, ...JSON.parse(button.dataset.range)));
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => Plotly.relayout(plot, theme()));
    timeline.dataset.drawn = "true";
  };

  const drawOrSay = (timeline) =>
    draw(timeline).catch((error) => {
      timeline.querySelector(".plot").textContent = `The timeline cannot be drawn in this browser: ${error.message}`;
      console.error(error);
    });

  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries.filter((one) => one.isIntersecting)) {
        observer.unobserve(entry.target);
        drawOrSay(entry.target);
      }
    },
    { rootMargin: "600px" },
  );
  for (const timeline of document.querySelectorAll(".timeline")) observer.observe(timeline);
})();
