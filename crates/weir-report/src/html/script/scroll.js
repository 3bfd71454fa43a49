// Only areas that scroll are stops of the keyboard. Without scripts, all of them are.

const stops = new ResizeObserver((entries) => entries.forEach(({ target: area }) => {
  if (area.scrollWidth > area.clientWidth) area.tabIndex = 0;
  else area.removeAttribute("tabindex");
}));
document.querySelectorAll(".scroll").forEach((area) => stops.observe(area));

