// Replaces the static charts with interactive ones; on an error, the static charts stay.

const parts = [["percentiles", drawPercentiles], ["time", drawTime]];

function drawAll() {
  for (const [id, draw] of parts) {
    const section = document.getElementById(id);
    if (section) draw(section.querySelector(".live"));
  }
}

function start() {
  if (!data.levels.length) return;
  const sections = parts.map(([id]) => document.getElementById(id)).filter(Boolean);
  for (const section of sections) section.classList.add("drawn");
  try {
    drawAll();
  } catch (error) {
    for (const section of sections) section.classList.remove("drawn");
    throw error;
  }
  let timer = 0;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(fit, 80);
  });
  scheme.addEventListener("change", () => shown.forEach(({ plot }) => plot.redraw(false, true)));
}

start();
decide();
