// How long until a time, told again every half minute; when it comes, the page is read anew.
function span(seconds) {
  const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  if (days) return `${days} d ${hours % 24} h`;
  return hours ? `${hours} h ${minutes % 60} min` : `${minutes} min`;
}
const shown = [...document.querySelectorAll("time[data-until]")].filter((t) => new Date(t.dateTime) > Date.now());
function tell() {
  for (const time of shown) {
    const left = (new Date(time.dateTime) - Date.now()) / 1000;
    if (left <= 0) return setTimeout(() => location.reload(), 1000 + Math.random() * 4000);
    time.textContent = span(left);
  }
  setTimeout(tell, 30000);
}
if (shown.length) tell();
