"use strict";
// Shows the values of charts under the pointer, makes tables sortable, and hands out command and document.
// Everything that is said on the page stands in it without this script too.
(() => {
  const svgElement = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };

  // Marks a spot of a chart and shows its text beside it: the nearest to the pointer, or the one that the arrow keys reach.
  const NEAR = 40;
  for (const figure of document.querySelectorAll("figure.chart")) {
    const { columns, spots } = JSON.parse(figure.querySelector("script").textContent);
    const plot = figure.querySelector(".plot");
    const label = document.createElement("div");
    label.className = "values";
    label.hidden = true;
    plot.append(label);
    let mark = null;
    let current = -1;

    // The drawing that the style sheet shows, its scale, and the rectangles of its panels.
    const drawing = () => {
      const svg = [...plot.querySelectorAll(":scope > svg")].find((svg) => svg.getBoundingClientRect().width > 0);
      const panels = svg.dataset.panels.split(";").map((panel) => panel.split(" ").map(Number));
      return { svg, panels, scale: svg.getBoundingClientRect().width / svg.viewBox.baseVal.width };
    };
    const place = ({ panels }, [panel, x, y]) => {
      const [left, top, width, height] = panels[panel];
      return [left + x * width, top + (1 - y) * height];
    };
    const hide = () => {
      label.hidden = true;
      mark?.remove();
      current = -1;
    };
    const show = (index) => {
      mark?.remove();
      current = index;
      const drawn = drawing();
      const [x, y] = place(drawn, spots[index]);
      const first = drawn.panels[0], last = drawn.panels.at(-1);
      mark = columns
        ? svgElement("path", { class: "spot", d: `M${x} ${first[1]}V${last[1] + last[3]}` })
        : svgElement("circle", { class: "spot", cx: x, cy: y, r: 7 });
      drawn.svg.append(mark);
      label.textContent = spots[index][3];
      label.hidden = false;
      const right = x * drawn.scale > plot.clientWidth / 2;
      label.style.left = right ? "auto" : `${x * drawn.scale + 14}px`;
      label.style.right = right ? `${plot.clientWidth - x * drawn.scale + 14}px` : "auto";
      const top = columns ? first[1] * drawn.scale : y * drawn.scale - label.offsetHeight / 2;
      label.style.top = `${Math.max(0, Math.min(top, plot.clientHeight - label.offsetHeight))}px`;
    };
    const nearest = (event) => {
      const drawn = drawing();
      const box = drawn.svg.getBoundingClientRect();
      const [x, y] = [(event.clientX - box.left) / drawn.scale, (event.clientY - box.top) / drawn.scale];
      let best = -1, least = columns ? Infinity : NEAR;
      spots.forEach((spot, index) => {
        const [spotX, spotY] = place(drawn, spot);
        const distance = columns ? Math.abs(spotX - x) : Math.hypot(spotX - x, spotY - y);
        // Of points in one place the last is drawn on top.
        if (distance <= least) [best, least] = [index, distance];
      });
      return best;
    };
    if (spots.length === 0) continue;
    plot.addEventListener("pointermove", (event) => {
      const index = nearest(event);
      if (index < 0) hide();
      else if (index !== current) show(index);
    });
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("blur", hide);
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") hide();
      if (step === undefined) return;
      event.preventDefault();
      show((current + step + spots.length + (current < 0 && step < 0 ? 1 : 0)) % spots.length);
    });
  }

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
  for (const command of document.querySelectorAll(".command pre")) {
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
  }

  const download = document.getElementById("download");
  if (download !== null) download.parentElement.hidden = false;
  download?.addEventListener("click", () => {
    const text = document.getElementById("result").textContent;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = `${JSON.parse(text).id || "result"}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 0);
  });
})();
