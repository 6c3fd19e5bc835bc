// Looks at the live page of a middlebox in headless Chromium and replaces a qdisc from it, then at that of a sender (Chrome DevTools Protocol):
// check-operate.mjs CHROMIUM MIDDLEBOX SENDER [DIRECTORY]
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [chromium, url, sender, directory] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "page-"));
const browser = spawn(chromium, ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-port=0",
  `--user-data-dir=${profile}`, "--window-size=1200,800", "about:blank"], { stdio: ["ignore", "ignore", "pipe"] });
const pause = time => new Promise(done => setTimeout(done, time));

async function endpoint() {
  let text = "";
  for await (const part of browser.stderr) {
    text += part;
    const found = /ws:\/\/[^:]+:(\d+)\//.exec(text);
    if (found) return found[1];
  }
  throw new Error("Chromium does not start: " + text);
}

async function main() {
  const port = await endpoint();
  const tabs = await (await fetch(`http://127.0.0.1:${port}/json`)).json();
  const socket = new WebSocket(tabs.find(tab => tab.type === "page").webSocketDebuggerUrl);
  await new Promise(done => socket.addEventListener("open", done));
  let number = 0;
  const waiting = new Map(), errors = [];
  socket.addEventListener("message", ({ data }) => {
    const { id, result, error, method, params } = JSON.parse(data);
    if (id) waiting.get(id)(error ? Promise.reject(new Error(error.message)) : result);
    else if (method === "Runtime.exceptionThrown") errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    else if (method === "Log.entryAdded" && params.entry.level === "error") errors.push(params.entry.text + " " + (params.entry.url ?? ""));
  });
  const ask = (method, params = {}) => new Promise(done => {
    waiting.set(++number, done);
    socket.send(JSON.stringify({ id: number, method, params }));
  });
  const run = async expression => {
    const { result, exceptionDetails } = await ask("Runtime.evaluate", { expression, awaitPromise: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  const shoot = async name => {
    if (!directory) return;
    const { cssContentSize } = await ask("Page.getLayoutMetrics");
    const { width, height } = cssContentSize;
    const { data } = await ask("Page.captureScreenshot", { captureBeyondViewport: true, clip: { x: 0, y: 0, width, height, scale: 1 } });
    writeFileSync(join(directory, name), Buffer.from(data, "base64"));
  };
  for (const domain of ["Runtime", "Log", "Page"]) await ask(domain + ".enable");
  await ask("Page.navigate", { url });
  await pause(3000);
  const kind = () => run(`document.querySelector("section .kind").textContent`);
  const before = await kind();
  await run(`(() => { const form = document.querySelector("section form");
    form.querySelector("input").value = "cake bandwidth 20mbit";
    form.querySelector("button[value=replace]").click(); })()`);
  await pause(3000);
  await shoot("page.png");
  const after = await kind(), hosts = await run(`document.querySelector(".talkers tbody").textContent`);
  await ask("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: "dark" }] });
  await ask("Emulation.setDeviceMetricsOverride", { width: 400, height: 900, deviceScaleFactor: 1, mobile: true });
  await pause(1000);
  await shoot("narrow.png");
  const overflow = await run("document.documentElement.scrollWidth - innerWidth");
  console.log(`* the page in Chromium: ${before} replaced by ${after}; ${errors.length} errors; ${overflow} columns too wide at 400`);
  if (before !== "fq_codel" || after !== "cake" || !hosts.includes("10.7.0.11") || errors.length > 0 || overflow > 0)
    throw new Error(JSON.stringify({ before, after, hosts, errors, overflow }));

  await ask("Emulation.setEmulatedMedia", { features: [] });
  await ask("Page.navigate", { url: sender });
  await pause(2500);
  await shoot("sender.png");
  const connection = await run(`document.querySelector(".connection").innerText`);
  const form = await run(`document.querySelector("form").checkVisibility()`);
  console.log(`* the sender's page: ${connection.split("\n")[0].trim()}, ${/blocked by .*/.exec(connection)?.[0]}`);
  if (!connection.includes("ESTABLISHED") || !connection.includes("blocked by tsq") || form || errors.length > 0)
    throw new Error(JSON.stringify({ connection, form, errors }));
}

try {
  await main();
} finally {
  browser.kill();
  await new Promise(done => browser.on("close", done));
  rmSync(profile, { recursive: true, force: true });
}
