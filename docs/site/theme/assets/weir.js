// Lets the keyboard scroll what is wider than the page: code and tables.
"use strict";

function focusScrolled() {
  for (const box of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

document.addEventListener("DOMContentLoaded", focusScrolled);
addEventListener("load", focusScrolled);
addEventListener("resize", focusScrolled);
