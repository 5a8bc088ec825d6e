// Figures answer questions: a point says its values, a line of the legend shows and hides its series.
// They are as they were drawn where there is no script, and on paper.
(function () {
  var GAP = 4, NEAR_PX = 24, NARROW = matchMedia('(max-width: 59.99rem)');
  var tip = document.createElement('div');
  tip.className = 'tip';
  tip.hidden = true;
  (document.querySelector('main') || document.body).append(tip);

  function all(node, selector) { return Array.from(node.querySelectorAll(selector)); }

  function belongs(mark, entry) { return mark.dataset.series.split(' ').includes(entry); }

  // What is not cut at its panel's edge: axes, title and frame.
  function box(panel) {
    var boxes = Array.from(panel.children).filter(function (part) {
      return part.dataset.axis || !part.matches('[clip-path]') && !part.querySelector('[clip-path]');
    }).map(function (part) { return part.getBBox(); }).filter(function (b) { return b.width + b.height; });
    var left = Math.min.apply(null, boxes.map(function (b) { return b.x; }));
    var top = Math.min.apply(null, boxes.map(function (b) { return b.y; }));
    return { x: left, y: top,
      right: Math.max.apply(null, boxes.map(function (b) { return b.x + b.width; })),
      bottom: Math.max.apply(null, boxes.map(function (b) { return b.y + b.height; })) };
  }

  function Figure(figure, svg) {
    this.svg = svg;
    this.scroll = svg.closest('.scroll');
    this.panels = all(svg, '[data-panel]');
    this.points = all(svg, 'use[data-series]').filter(function (use) { return use.firstElementChild; });
    this.wide = svg.viewBox.baseVal.width;
    this.high = svg.viewBox.baseVal.height;
    var rules = getComputedStyle(this.scroll);
    this.pxPerUnit = parseFloat(rules.getPropertyValue('--wide')) / this.wide;
    this.leastShare = parseFloat(rules.getPropertyValue('--least')) / (this.wide * this.pxPerUnit);
    this.name();
    this.legend(figure);
    this.frames = this.panels.map(function (panel) { return panel.querySelector('path').getBBox(); });
    this.lay(NARROW.matches);
  }

  // Points can be reached by the arrow keys once the picture is entered, and are read out.
  Figure.prototype.name = function () {
    var own = this;
    if (!this.points.length) return;
    this.svg.setAttribute('role', 'group');
    this.points.forEach(function (use) {
      use.setAttribute('aria-label', use.firstElementChild.textContent);
      use.setAttribute('role', 'img');
      use.setAttribute('tabindex', use === own.points[0] ? 0 : -1);
      use.firstElementChild.remove();
      use.addEventListener('focus', function () { show(use); });
      use.addEventListener('blur', hide);
    });
    this.svg.addEventListener('keydown', function (event) { own.move(event); });
    this.svg.addEventListener('pointermove', function (event) { own.hover(event); });
    this.svg.addEventListener('pointerdown', function (event) { own.hover(event); });
    this.svg.addEventListener('pointerleave', hide);
  };

  Figure.prototype.seen = function () {
    return this.points.filter(function (use) { return !use.closest('.off'); });
  };

  Figure.prototype.move = function (event) {
    var seen = this.seen(), at = seen.indexOf(event.target);
    var to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1,
      Home: 0, End: seen.length - 1 }[event.key];
    if (event.key === 'Escape') hide();
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    this.enter(seen[Math.max(0, Math.min(to, seen.length - 1))]).focus();
  };

  // One point at a time is a stop of the tabulator.
  Figure.prototype.enter = function (point) {
    this.points.forEach(function (use) { use.setAttribute('tabindex', use === point ? 0 : -1); });
    return point;
  };

  Figure.prototype.hover = function (event) {
    var nearest = null, least = NEAR_PX;
    this.seen().forEach(function (use) {
      var at = use.getBoundingClientRect();
      var apart = Math.hypot(at.x + at.width / 2 - event.clientX, at.y + at.height / 2 - event.clientY);
      if (apart < least) { least = apart; nearest = use; }
    });
    if (nearest) show(nearest); else hide();
  };

  function show(use) {
    var at = use.getBoundingClientRect();
    tip.textContent = use.getAttribute('aria-label');
    tip.hidden = false;
    var left = Math.min(at.right + 8, innerWidth - tip.offsetWidth - 8);
    var above = at.top - tip.offsetHeight - 8;
    tip.style.left = Math.max(8, left) + 'px';
    tip.style.top = (above > 0 ? above : at.bottom + 8) + 'px';
  }

  function hide() { tip.hidden = true; }

  // The legend as buttons below the picture.
  Figure.prototype.legend = function (figure) {
    var own = this, legend = this.svg.querySelector('[data-legend]');
    if (!legend) return;
    var list = document.createElement('div');
    list.className = 'legend';
    var keys = all(legend, '[data-key]'), place = 0;
    all(legend, '[data-entry], [data-heading]').forEach(function (entry) {
      if (entry.dataset.heading !== undefined) {
        if (entry.dataset.heading) list.append(made('b', entry.dataset.heading));
        return;
      }
      var number = String(place), key = keys[place++];
      var marks = all(own.svg, '[data-panel] [data-series]').filter(function (mark) {
        return belongs(mark, number);
      });
      var one = made(marks.length ? 'button' : 'span', entry.dataset.entry);
      if (key) one.prepend(own.swatch(key));
      if (marks.length) {
        one.type = 'button';
        one.setAttribute('aria-pressed', 'true');
        one.addEventListener('click', function () {
          var off = one.getAttribute('aria-pressed') === 'true';
          one.setAttribute('aria-pressed', !off);
          marks.forEach(function (mark) { mark.classList.toggle('off', off); });
          if (own.points.length) own.enter(own.seen()[0]);
        });
      }
      list.append(one);
    });
    legend.remove();
    this.scroll.after(list);
  };

  function made(kind, text) {
    var node = document.createElement(kind);
    node.append(text);
    return node;
  }

  Figure.prototype.swatch = function (key) {
    var at = key.getBBox(), svg = this.svg.cloneNode(false);
    ['role', 'aria-label', 'class'].forEach(function (name) { svg.removeAttribute(name); });
    svg.setAttribute('aria-hidden', 'true');
    svg.setAttribute('viewBox', [at.x - GAP, at.y - GAP, at.width + 2 * GAP, at.height + 2 * GAP].join(' '));
    svg.setAttribute('width', (at.width + 2 * GAP) * 1.33);
    svg.setAttribute('height', (at.height + 2 * GAP) * 1.33);
    svg.append(key.cloneNode(true));
    return svg;
  };

  // Panels as they were drawn, or one below the other where their letters could not be read.
  Figure.prototype.lay = function (isNarrow) {
    var own = this;
    all(this.svg, '.borrowed').forEach(function (axis) { axis.remove(); });
    this.panels.forEach(function (panel) { panel.removeAttribute('transform'); });
    if (!this.panels.length) return;
    var boxes = this.panels.map(box), whole = around(boxes);
    var least = (whole.right - whole.x) * this.pxPerUnit * this.leastShare;
    if (isNarrow && this.panels.length > 1 && least > this.scroll.clientWidth) {
      this.panels.forEach(function (panel, number) { own.borrow(panel, number); });
      var down = 0, left = null;
      boxes = this.panels.map(box).map(function (b, number) {
        if (left === null) left = b.x;
        var dx = left - b.x, dy = down - b.y;
        own.panels[number].setAttribute('transform', 'translate(' + dx + ' ' + dy + ')');
        down += b.bottom - b.y + 3 * GAP;
        return { x: left, y: b.y + dy, right: b.right + dx, bottom: b.bottom + dy };
      });
      whole = around(boxes);
    }
    this.frame(whole);
  };

  function around(boxes) {
    return boxes.reduce(function (a, b) {
      return { x: Math.min(a.x, b.x), y: Math.min(a.y, b.y),
        right: Math.max(a.right, b.right), bottom: Math.max(a.bottom, b.bottom) };
    });
  }

  // A panel that had its ticks from one next to it gets a copy of them.
  Figure.prototype.borrow = function (panel, number) {
    var own = this;
    all(panel, '[data-axis$=" bare"]').forEach(function (axis) {
      var isX = axis.dataset.axis[0] === 'x', at = own.frames[number];
      own.panels.some(function (other, place) {
        var from = own.frames[place], lender = other.querySelector('[data-axis="' + axis.dataset.axis[0] + '"]');
        if (!lender || Math.abs(isX ? from.x - at.x : from.y - at.y) > 1) return false;
        // In a group: the box of what is moved itself is that of where it was.
        var group = panel.insertBefore(document.createElementNS(axis.namespaceURI, 'g'), axis);
        group.setAttribute('class', 'borrowed');
        group.dataset.axis = 'copy';
        var copy = group.appendChild(lender.cloneNode(true));
        copy.removeAttribute('data-axis');
        copy.setAttribute('transform', isX
          ? 'translate(0 ' + (at.y + at.height - from.y - from.height) + ')'
          : 'translate(' + (at.x - from.x) + ' 0)');
        all(copy, 'defs').forEach(function (part) { part.remove(); });
        // Grid lines are there already.
        all(copy, '[clip-path]').forEach(function (part) { part.remove(); });
        return true;
      });
    });
  };

  Figure.prototype.frame = function (b) {
    var width = b.right - b.x + 2 * GAP, height = b.bottom - b.y + 2 * GAP, px = width * this.pxPerUnit;
    this.svg.setAttribute('viewBox', [b.x - GAP, b.y - GAP, width, height].join(' '));
    this.svg.setAttribute('width', width + 'pt');
    this.svg.setAttribute('height', height + 'pt');
    this.scroll.style.setProperty('--wide', px + 'px');
    this.scroll.style.setProperty('--least', Math.ceil(px * this.leastShare) + 'px');
    this.scroll.style.setProperty('--shape', width / height);
  };

  var figures = all(document, 'figure .scroll > svg[viewBox]').map(function (svg) {
    return new Figure(svg.closest('figure'), svg);
  });
  addEventListener('resize', function () {
    figures.forEach(function (one) { one.lay(NARROW.matches); });
  });
  addEventListener('beforeprint', function () { figures.forEach(function (one) { one.lay(false); }); });
  addEventListener('afterprint', function () { figures.forEach(function (one) { one.lay(NARROW.matches); }); });
  addEventListener('scroll', hide, true);
})();
