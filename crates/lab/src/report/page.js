"use strict";
// Draws the charts in the colours of the style sheet, makes tables sortable, and hands out command and document.
// Everything that is said on the page stands in it without this script too.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const print = matchMedia("print");
  const touch = matchMedia("(pointer: coarse)");

  // Replaces each `var(--name)` in a chart by what the style sheet says at present.
  const coloured = (value, style) => {
    if (Array.isArray(value)) return value.map((item) => coloured(item, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item, style)]));
    }
    const name = typeof value === "string" && /^var\((--[a-z0-9-]+)\)$/.exec(value);
    return name ? style.getPropertyValue(name[1]).trim() : value;
  };

  // What all charts look like, as a template: what a chart says itself goes before it.
  const template = (style) => {
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = {
      gridcolor: color("--rule"), linecolor: color("--rule"), tickcolor: color("--rule"), color: color("--muted"),
      title: { font: { size: 13 }, standoff: 8 },
    };
    return {
      layout: {
        font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: color("--ink") },
        paper_bgcolor: "transparent", plot_bgcolor: "transparent", xaxis: axis, yaxis: axis,
        hoverlabel: { bgcolor: color("--panel"), bordercolor: color("--muted"), align: "left", font: { family: getComputedStyle(document.body).fontFamily, color: color("--ink") } },
      },
    };
  };

  const charts = [...document.querySelectorAll("figure.chart")].map((figure) => ({
    plot: figure.querySelector(".plot"),
    specification: JSON.parse(figure.querySelector("script").textContent),
  }));

  const draw = () => {
    const style = getComputedStyle(document.documentElement);
    for (const { plot, specification } of charts) {
      const { data, layout } = coloured(specification, style);
      // A finger that scrolls the page must not be caught by a chart.
      const dragmode = touch.matches ? false : "zoom";
      // The printed page is narrower than the window that the chart was drawn in.
      const size = print.matches ? { width: 660 } : {};
      // Rows over one axis answer together.
      const shared = { hoversubplots: "axis", dragmode, height: plot.clientHeight, template: template(style) };
      Plotly.react(plot, data, { ...layout, ...size, ...shared }, { responsive: true, displayModeBar: false, displaylogo: false });
    }
  };
  draw();
  dark.addEventListener("change", draw);
  print.addEventListener("change", draw);
  touch.addEventListener("change", draw);

  // Sorts by a column; a second click turns the order round.
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  const sort = (table, column) => {
    const header = table.tHead.rows[0].cells[column];
    const order = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b));
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => sign * compare(value(a, column), value(b, column)));
    table.tBodies[0].append(...rows);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...cell.childNodes);
      button.addEventListener("click", () => sort(table, column));
      cell.append(button);
    });
  }

  // A page opened from a file may not write to the clipboard everywhere; then the command is selected for the reader.
  const command = document.getElementById("command");
  const copy = document.createElement("button");
  copy.type = "button";
  copy.textContent = "Copy the command";
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(command);
      copy.textContent = "Selected: press Ctrl+C";
    }
  });
  command.after(copy);

  const download = document.getElementById("download");
  download.parentElement.hidden = false;
  download.addEventListener("click", () => {
    const text = document.getElementById("result").textContent;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = `${JSON.parse(text).id || "result"}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 0);
  });
})();
