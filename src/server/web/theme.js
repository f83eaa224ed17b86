// Runs before the page is drawn, so that no light page flashes on a dark one.
(() => {
  const theme = localStorage.getItem('gabbro-theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
})();
