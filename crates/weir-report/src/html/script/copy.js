// Buttons that copy a table as Markdown and a chart as an image.

// Adds the button below an element, in a common parent: the element may be an item of a grid.
function copyBar(above, label, act) {
  const bar = element("div", "copy-bar");
  const button = element("button", "copy", label);
  button.type = "button";
  button.addEventListener("click", async () => {
    let done = "not copied";
    try {
      done = await act();
    } catch (error) {
      console.error(error);
    }
    button.textContent = done;
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  bar.append(button);
  const both = element("div");
  above.replaceWith(both);
  both.append(above, bar);
}

// Tables.

function cellText(cell) {
  const parts = [...cell.childNodes].map((node) => node.textContent.trim()).filter(Boolean);
  return parts.join(" ").replace(/\s+/g, " ").replace(/[\\|`*_<>[\]]/g, "\\$&");
}

function markdownOf(table) {
  const heads = table.tHead ? [...table.tHead.rows].pop().cells : [];
  const columns = heads.length || Math.max(...[...table.rows].map((row) => row.cells.length));
  const line = (texts) => "| " + texts.join(" | ") + " |";
  const padded = (row) => {
    const texts = [...row.cells].map(cellText);
    return texts.concat(Array(Math.max(0, columns - texts.length)).fill("")).slice(0, columns);
  };
  const lines = [
    line(heads.length ? [...heads].map(cellText) : Array(columns).fill("")),
    line(Array.from({ length: columns }, (_, index) =>
      heads[index] && heads[index].classList.contains("n") ? "--:" : "---")),
  ];
  for (const body of table.tBodies) lines.push(...[...body.rows].map((row) => line(padded(row))));
  return lines.join("\n") + "\n";
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission for the clipboard.
    const area = element("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    if (!copied) throw new Error("the clipboard is not available");
  }
  return "copied";
}

// Charts. An SVG is drawn element by element, because the content policy allows no image.

const SCALE = 2;
const FONT = "system-ui, sans-serif";

function canvasOf(width, height) {
  const canvas = element("canvas");
  canvas.width = Math.ceil(width * SCALE);
  canvas.height = Math.ceil(height * SCALE);
  const ctx = canvas.getContext("2d");
  ctx.scale(SCALE, SCALE);
  ctx.fillStyle = ink("--bg");
  ctx.fillRect(0, 0, width, height);
  return [canvas, ctx];
}

function shapeOf(node) {
  const of = (name) => Number(node.getAttribute(name) || 0);
  const path = new Path2D(node.tagName === "path" ? node.getAttribute("d") : undefined);
  if (node.tagName === "rect") path.rect(of("x"), of("y"), of("width"), of("height"));
  if (node.tagName === "circle") path.arc(of("cx"), of("cy"), of("r"), 0, 2 * Math.PI);
  if (node.tagName === "line") {
    path.moveTo(of("x1"), of("y1"));
    path.lineTo(of("x2"), of("y2"));
  }
  return path;
}

function drawNode(ctx, node) {
  const style = getComputedStyle(node);
  ctx.save();
  ctx.globalAlpha = Number(style.opacity);
  if (node.tagName === "text") {
    ctx.fillStyle = style.fill;
    ctx.font = style.fontWeight + " " + style.fontSize + " " + FONT;
    ctx.textAlign = { start: "left", middle: "center", end: "right" }[style.textAnchor];
    ctx.fillText(node.textContent, Number(node.getAttribute("x")), Number(node.getAttribute("y")));
  } else {
    const path = shapeOf(node);
    if (style.fill !== "none") {
      ctx.save();
      ctx.globalAlpha *= Number(style.fillOpacity);
      ctx.fillStyle = style.fill;
      ctx.fill(path);
      ctx.restore();
    }
    if (style.stroke !== "none") {
      ctx.strokeStyle = style.stroke;
      ctx.lineWidth = parseFloat(style.strokeWidth);
      ctx.setLineDash(style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(",").map(parseFloat));
      ctx.stroke(path);
    }
  }
  ctx.restore();
}

function imageOfSvg(svg) {
  const margin = 14;
  const { x, y, width, height } = svg.viewBox.baseVal;
  const [canvas, ctx] = canvasOf(width + 2 * margin, height + 2 * margin);
  ctx.translate(margin - x, margin - y);
  svg.querySelectorAll("line, path, rect, circle, text").forEach((node) => drawNode(ctx, node));
  return canvas;
}

// An interactive chart: its title, the canvas and the names of its lines.
function imageOfPlot(box) {
  const own = box.querySelector("canvas");
  const [width, height] = [own.clientWidth, own.clientHeight];
  const [canvas, ctx] = canvasOf(width + 20, height + 62);
  ctx.font = "12px " + FONT;
  ctx.fillStyle = ink("--ink");
  ctx.fillText(box.querySelector(".axis-title").textContent, 10, 20);
  ctx.drawImage(own, 10, 30, width, height);
  let x = 62;
  box.querySelectorAll(".u-legend .u-series").forEach((row, index) => {
    if (index === 0) return;
    const name = row.querySelector(".u-label").textContent;
    ctx.fillStyle = getComputedStyle(row.querySelector(".u-marker")).borderTopColor;
    ctx.fillRect(x, height + 44, 14, 3);
    ctx.fillStyle = ink("--ink");
    ctx.fillText(name, x + 19, height + 49);
    x += 38 + ctx.measureText(name).width;
  });
  return canvas;
}

async function copyImage(canvas) {
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  try {
    await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
    return "copied";
  } catch {
    // Without permission for the clipboard, or in a browser without images on it.
    const link = element("a");
    link.href = URL.createObjectURL(blob);
    link.download = "chart.png";
    link.click();
    URL.revokeObjectURL(link.href);
    return "saved";
  }
}

const AS_IMAGE = "Copy as image";

function addCopyButtons() {
  document.querySelectorAll("main .scroll > table").forEach((table) => {
    copyBar(table.parentElement, "Copy as Markdown", () => copyText(markdownOf(table)));
  });
  document.querySelectorAll("figure svg").forEach((svg) => {
    copyBar(svg.parentElement, AS_IMAGE, () => copyImage(imageOfSvg(svg)));
  });
}

addCopyButtons();
