// Times arrive in UTC, so that a page reads without script; here they turn into the reader's zone.
const forms = {
  clock: { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
  moment: { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
};
for (const time of document.querySelectorAll("time[datetime]:not([data-keep])")) {
  const at = new Date(time.dateTime);
  if (Number.isNaN(at.getTime())) continue;
  const form = time.dataset.form === "clock" ? forms.clock : forms.moment;
  time.textContent = new Intl.DateTimeFormat("en-GB", form).format(at).replace(",", "");
  time.title = at.toString();
}
