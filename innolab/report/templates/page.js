var code = document.getElementById('all-code');
code.addEventListener('click', function () {
  var show = this.getAttribute('aria-pressed') === 'false';
  document.querySelectorAll('details.code').forEach(function (part) { part.open = show; });
  this.setAttribute('aria-pressed', show);
  this.textContent = show ? this.dataset.hide : this.dataset.show;
});

// A box that scrolls can be reached by the keyboard, one that does not stands in nobody's way.
function reach() {
  var boxes = Array.from(document.querySelectorAll('.scroll, pre'));
  var scrolls = boxes.map(function (box) { return box.scrollWidth > box.clientWidth; });
  boxes.forEach(function (box, number) {
    if (scrolls[number]) box.tabIndex = 0; else box.removeAttribute('tabindex');
  });
}
addEventListener('resize', reach);
document.addEventListener('toggle', reach, true);
reach();

// On paper nobody can unfold what is folded.
var folded = [];
addEventListener('beforeprint', function () {
  folded = Array.from(document.querySelectorAll('details:not(.code):not([open])'));
  folded.forEach(function (part) { part.open = true; });
});
addEventListener('afterprint', function () {
  folded.forEach(function (part) { part.open = false; });
});
