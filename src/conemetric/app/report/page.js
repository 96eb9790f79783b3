"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const data = JSON.parse(document.getElementById("data").textContent);
  // only buttons that work without a server
  const buttonsOf = (key) => (key === "views" ? ["select2d", "lasso2d", "zoom2d", "resetScale2d", "toImage"] : ["zoom2d", "resetScale2d", "toImage"]);
  const configOf = (key) => ({ responsive: true, displaylogo: false, displayModeBar: !narrow.matches, modeBarButtons: [buttonsOf(key)] });
  const narrow = window.matchMedia("(max-width: 640px)");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // ---- figures take the colours and the width of the page

  const PAIRED = ["views", "confusion"]; // two subplots, side by side or one above the other

  function layoutOf(key) {
    const layout = structuredClone(figures[key].layout);
    delete layout.template;
    Object.assign(layout, {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true, hovermode: "closest",
      font: { family: getComputedStyle(document.body).fontFamily, color: colour("--ink"), size: 13 },
      hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--accent") },
      margin: { l: 56, r: 24, t: 40, b: 48, ...(layout.margin || {}) },
    });
    for (const name of Object.keys(layout)) {
      if (/^[xy]axis\d*$/.test(name)) {
        Object.assign(layout[name], { gridcolor: colour("--grid"), zerolinecolor: colour("--line"), linecolor: colour("--line"), automargin: true });
      }
    }
    if (PAIRED.includes(key)) {
      const stacked = narrow.matches;
      layout.xaxis.domain = stacked ? [0, 1] : layout.xaxis.domain;
      layout.xaxis2.domain = stacked ? [0, 1] : layout.xaxis2.domain;
      layout.yaxis.domain = stacked ? [0.56, 1] : [0, 1];
      layout.yaxis2.domain = stacked ? [0, 0.44] : [0, 1];
      (layout.annotations || []).forEach((note, i) => {
        const axis = i === 0 ? layout.xaxis : layout.xaxis2;
        Object.assign(note, { x: axis.domain[0], y: stacked && i === 1 ? 0.44 : 1, xanchor: "left", yanchor: "bottom" });
      });
      if (key === "confusion") { // both tables have the same classes: name them once
        layout.yaxis2.showticklabels = stacked;
        layout.xaxis.showticklabels = !stacked;
        if (stacked) layout.xaxis.title.text = "";
      }
      if (key === "views") layout.margin = { l: 8, r: 8, t: 36, b: 8 };
      if (stacked) layout.dragmode = false;
    }
    return layout;
  }

  // counts in the colour of the page: over half-transparent cells plotly guesses wrong
  function inked(traces) {
    for (const trace of traces) if (trace.texttemplate) trace.textfont = { color: colour("--ink") };
    return traces;
  }

  const drawn = new Map();

  async function draw(key) {
    const place = document.getElementById(`plot-${key}`);
    if (!place || !figures[key] || drawn.has(key)) return;
    drawn.set(key, place);
    await Plotly.newPlot(place, inked(figures[key].data), layoutOf(key), configOf(key));
    if (key === "views") connectViews(place);
  }

  function redraw() {
    for (const [key, place] of drawn) Plotly.react(place, inked(place.data), layoutOf(key), configOf(key));
  }
  dark.addEventListener("change", redraw);
  narrow.addEventListener("change", redraw);

  // ---- tabs, by mouse and by arrow keys

  const tabs = [...document.querySelectorAll('[role="tab"]')];
  function choose(tab, focus) {
    for (const other of tabs) {
      const on = other === tab;
      other.setAttribute("aria-selected", on);
      other.tabIndex = on ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !on;
    }
    if (focus) tab.focus();
    const panel = document.getElementById(tab.getAttribute("aria-controls"));
    for (const place of panel.querySelectorAll(".plot")) draw(place.id.slice(5));
    try { history.replaceState(null, "", "#" + tab.id.slice(4)); } catch { /* not allowed in a sandboxed frame */ }
  }
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const target = event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1 : step ? (i + step + tabs.length) % tabs.length : null;
      if (target === null) return;
      event.preventDefault();
      choose(tabs[target], true);
    });
  });

  // ---- the two maps are linked: a row pointed at or selected on one side shows on both

  const sheet = document.getElementById("sheet");
  const canvas = document.querySelector(".row-card canvas");
  const rowText = document.getElementById("row-text");

  function showRow(row) {
    rowText.innerHTML = data.details[row];
    if (!data.tile) return;
    const [height, width] = data.tile;
    const zoom = Math.max(1, Math.floor(72 / height));
    canvas.width = width * zoom;
    canvas.height = height * zoom;
    const pen = canvas.getContext("2d");
    pen.imageSmoothingEnabled = false;
    const left = (row % data.tilesPerLine) * width, top = Math.floor(row / data.tilesPerLine) * height;
    pen.drawImage(sheet, left, top, width, height, 0, 0, canvas.width, canvas.height);
  }

  function connectViews(place) {
    let current = Object.keys(data.views)[0];
    const ringOf = (row) => [0, 1].map((side) => data.views[current][side][row]);
    const ring = { mode: "markers", hoverinfo: "skip", showlegend: false, x: [], y: [], marker: { size: 17, symbol: "circle-open", line: { width: 3 }, color: colour("--ink") } };
    const first = place.data.length;
    Plotly.addTraces(place, [{ ...ring, xaxis: "x", yaxis: "y" }, { ...ring, marker: { ...ring.marker }, xaxis: "x2", yaxis: "y2" }]);
    let last = -1;
    const point = (row) => {
      if (row === last) return;
      last = row;
      const [before, after] = ringOf(row);
      Plotly.restyle(place, { x: [[before[0]], [after[0]]], y: [[before[1]], [after[1]]], "marker.color": colour("--ink") }, [first, first + 1]);
      showRow(row);
    };
    const rowAt = (event) => event.points.length && event.points[0].curveNumber < first ? event.points[0].customdata : null;
    for (const kind of ["plotly_hover", "plotly_click"]) {
      place.on(kind, (event) => { const row = rowAt(event); if (row !== null) point(row); });
    }
    place.on("plotly_selected", (event) => {
      const rows = event && event.points.length ? new Set(event.points.filter((p) => p.curveNumber < first).map((p) => p.customdata)) : null;
      const chosen = place.data.slice(0, first).map((trace) => rows && trace.customdata.flatMap((row, i) => (rows.has(row) ? [i] : [])));
      Plotly.restyle(place, { selectedpoints: chosen }, [...Array(first).keys()]);
      if (rows) rowText.textContent = `${rows.size} rows selected, shown on both sides; double-click to clear.`;
    });
    place.on("plotly_deselect", () => Plotly.restyle(place, { selectedpoints: null }, [...Array(first).keys()]));
    const buttons = [...document.querySelectorAll("[data-view]")];
    const press = () => buttons.forEach((button) => button.setAttribute("aria-pressed", button.dataset.view === current));
    press();
    buttons.forEach((button) => button.addEventListener("click", () => {
      current = button.dataset.view;
      press();
      const side = (trace) => data.views[current][trace % 2];
      const traces = [...Array(first).keys()];
      Plotly.restyle(place, {
        x: traces.map((t) => place.data[t].customdata.map((row) => side(t)[row][0])),
        y: traces.map((t) => place.data[t].customdata.map((row) => side(t)[row][1])),
      }, traces);
      Plotly.restyle(place, { x: [[], []], y: [[], []] }, [first, first + 1]);
      Plotly.relayout(place, { "xaxis.autorange": true, "xaxis2.autorange": true, "yaxis.autorange": true, "yaxis2.autorange": true });
      last = -1;
    }));
  }

  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const text = button.nextElementSibling.textContent;
      try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { button.textContent = "Select and copy"; }
      setTimeout(() => { button.textContent = "Copy"; }, still.matches ? 4000 : 1500);
    });
  }

  const wanted = tabs.find((tab) => "#" + tab.id.slice(4) === location.hash);
  choose(wanted || tabs[0]);
})();
