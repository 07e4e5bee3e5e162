// Receives webhook calls and says what the public library thinks of them. Arguments: secrets, each as `signed:SECRET`, as it is
// written with `whsec_`, or `raw:SECRET`, bytes of text. The first line is the URL; then a line for each call.
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const secrets = process.argv.slice(2).map((argument) => {
  const [form, secret] = [argument.slice(0, argument.indexOf(":")), argument.slice(argument.indexOf(":") + 1)];
  return new Webhook(secret, form === "raw" ? { format: "raw" } : undefined);
});

const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const server = createServer((request, response) => {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    const body = Buffer.concat(pieces);
    const verdicts = secrets.map((secret) => {
      try {
        return secret.verify(body, request.headers).id;
      } catch (error) {
        return `refused: ${error.message}`;
      }
    });
    response.writeHead(204).end();
    tell({ id: request.headers["webhook-id"], verdicts });
  });
});
server.listen(0, "127.0.0.1", () => tell(`http://127.0.0.1:${server.address().port}/hook`));
