// Sends a message to the sensor `hook`: its server, the id of the message and what is in it.

const [url = "", id = "", body = ""] = process.argv.slice(2);
const headers = { "webhook-id": id, "content-type": "application/json" };
const response = await fetch(`${url}/api/v1/orchestration/sensors/hook/messages`, {
  method: "POST",
  headers,
  body,
});
if (response.status !== 202) throw new Error(await response.text());
