document.getElementById('all-code').addEventListener('click', function () {
  var show = this.getAttribute('aria-pressed') === 'false';
  document.querySelectorAll('details.code').forEach(function (part) { part.open = show; });
  this.setAttribute('aria-pressed', show);
  this.textContent = show ? this.dataset.hide : this.dataset.show;
});
