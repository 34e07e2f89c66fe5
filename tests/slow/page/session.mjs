// node session.mjs MODULES URL TEXT: a person types TEXT into the page at URL, looks at the marked
// word by keyboard, takes a proposal, changes the language. Prints what was seen as JSON.
// CHROME_PATH names a browser; else @sparticuz/chromium of MODULES has one for Linux.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, url, text] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(createRequire(`${modules}/`).resolve(name)));
const puppeteer = (await load("puppeteer-core")).default;
const chromium = (await load("@sparticuz/chromium")).default;
const browser = await puppeteer.launch({
  args: [...(process.env.CHROME_PATH ? [] : chromium.args), "--no-sandbox"],
  executablePath: process.env.CHROME_PATH ?? (await chromium.executablePath()),
  headless: "shell",
});
const seen = { requests: [], errors: [] };
try {
  const page = await browser.newPage();
  page.on("request", (request) => seen.requests.push(request.url().slice(0, 200)));
  page.on("requestfailed", (request) => seen.errors.push(request.url().slice(0, 200)));
  page.on("pageerror", (error) => seen.errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
  await page.setViewport({ width: 390, height: 800 });
  await page.goto(url, { waitUntil: "load" });
  const status = () => page.$eval("#status", (element) => element.textContent);
  const settled = async (before) => {
    await page.waitForFunction((old) => document.getElementById("status").textContent !== old, {}, before);
    return status();
  };
  await page.waitForFunction(() => detector, { timeout: 60_000 });
  if ((await page.evaluate(() => document.documentElement.lang)) !== "en") await page.click("#language");
  await page.waitForSelector("#result .marked");
  seen.title = await page.title();
  seen.first = await page.$$eval("#result .marked", (all) => all.map((one) => one.firstChild.data));
  await page.evaluate(() => {
    $("text").value = "";
    return read();
  });
  await page.waitForFunction(() => document.getElementById("status").textContent === say.empty);
  seen.empty = await status();
  await page.focus("#text");
  for (const character of text) await page.keyboard.type(character);
  await page.waitForSelector("#result .marked");
  seen.status = await settled(seen.empty);
  seen.words = await page.evaluate(() => verdict.words.map((word) => [word.text, word.probability]));
  seen.marked = await page.$$eval("#result .marked", (all) => all.map((one) => one.firstChild.data));
  // from the field by Tab to the marked word, and into it
  for (let tabs = 0; tabs < 20; tabs += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement.matches("#result .marked"))) break;
  }
  await page.keyboard.press("Enter");
  await page.waitForSelector("#detail:not([hidden])");
  seen.focused = await page.evaluate(() => document.activeElement.id);
  seen.proposals = await page.$$eval("#proposals button", (all) => all.map((one) => one.textContent));
  seen.effects = await page.$$eval("#effects tbody th", (all) => all.map((one) => one.textContent));
  await page.keyboard.press("Escape");
  seen.closed = await page.$eval("#detail", (element) => element.hidden);
  seen.returned = await page.evaluate(() => document.activeElement.className);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#detail:not([hidden])");
  await page.click("#proposals button");
  seen.mended = await settled(seen.status);
  seen.text = await page.$eval("#text", (element) => element.value);
  await page.click("#language");
  seen.korean = await settled(seen.mended);
  seen.lang = await page.evaluate(() => document.documentElement.lang);
  seen.untranslated = await page.$$eval("[data-say]", (all) => all.filter((one) => !one.textContent).length);
  seen.width = await page.evaluate(() => document.documentElement.scrollWidth);
  // named for a screen reader: all that can be reached has a name
  const nameless = (node) => [
    ...(["button", "textbox", "combobox"].includes(node.role) && !node.name ? [node.role] : []),
    ...(node.children ?? []).flatMap(nameless),
  ];
  seen.nameless = nameless(await page.accessibility.snapshot());
  // a text longer than the model's positions
  seen.long = await page.evaluate(
    async (one) => (await detector.read(one)).words.map((word) => word.probability),
    `${text} `.repeat(30),
  );
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
