"use strict";
// Lengths are pixels; a browser rounds them, so half of one more is nothing.
const SLACK = 0.5;

function pageProblems(name, page) {
  const found = [];
  const root = page.documentElement;
  const width = root.clientWidth;
  if (root.scrollWidth > width) {
    const isOutside = (one) => one.getBoundingClientRect().right > width + SLACK && !one.closest("pre *, table *");
    const outside = [...page.body.querySelectorAll("*")].find(isOutside);
    const words = outside ? `: ${outside.localName} ${outside.textContent.trim().slice(0, 40)}` : "";
    found.push(`${name} is ${root.scrollWidth} pixels wide${words}`);
  }
  // In the book a table is shown as a whole; on a code hosting site it is a box that scrolls.
  for (const box of page.querySelectorAll(".table-wrapper")) {
    if (box.scrollWidth > box.clientWidth) {
      found.push(`${name}: a table is cut off: ${box.textContent.trim().slice(0, 40)}`);
    }
  }
  for (const image of page.images) {
    const source = image.getAttribute("src");
    const { left, right } = image.getBoundingClientRect();
    if (!image.naturalWidth) {
      found.push(`${name}: there is no picture ${source}`);
    } else if (left < -SLACK || right > width + SLACK) {
      found.push(`${name}: picture ${source} is cut off`);
    }
  }
  return found;
}

// What a drawing has beyond its own edges is not shown.
function drawingProblems(name, drawing) {
  const [x, y, width, height] = drawing.getAttribute("viewBox").split(" ").map(Number);
  const box = drawing.getBBox();
  const over = [x - box.x, y - box.y, box.x + box.width - x - width, box.y + box.height - y - height];
  const most = Math.max(...over);
  return most > 1 ? [`${name} is cut off: ${most.toFixed(1)} pixels are beyond its edge`] : [];
}

window.onload = () => {
  const frames = [...document.querySelectorAll("iframe")];
  const drawings = [...document.querySelectorAll("figure")];
  const found = [
    `${frames.length} frames measured`,
    ...frames.flatMap((frame) => pageProblems(frame.title, frame.contentDocument)),
    ...drawings.flatMap((figure) => drawingProblems(figure.title, figure.querySelector("svg"))),
  ];
  document.getElementById("found").textContent = found.join("\n");
};
