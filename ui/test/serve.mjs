// A proxy in front of a running logsvc: optionally under a path prefix, with basic authentication, with
// requests that hang, and with connections of tails that end, as proxies end them, at a word or
// after some time without a byte. With --dist, or DIST=1, it serves the files of ui/dist itself, as the
// server does: for work on the page without building the server.
//
//   node test/serve.mjs --target http://127.0.0.1:3100 --port 3200 [--dist] [--prefix /logs] [--auth user:password]

import http from 'node:http';
import net from 'node:net';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const DIST = fileURLToPath(new URL('../dist/', import.meta.url));
const POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

/** Starts the proxy; resolves to `{ url, close, cutTails }`. */
export function serve({ target, port = 0, prefix = '', auth = '', hold = null, quiet = 0, dist = process.env.DIST === '1' }) {
  const to = new URL(target);
  const files = () => new Map(JSON.parse(readFileSync(DIST + 'manifest.json', 'utf8')).files.map((f) => [f.name, f]));
  const tails = new Set();
  const wanted = auth && 'Basic ' + Buffer.from(auth).toString('base64');

  const inner = (url) => (prefix ? (url === prefix || url.startsWith(prefix + '/') ? url.slice(prefix.length) || '/' : null) : url);

  const server = http.createServer((req, res) => {
    if (wanted && req.headers.authorization !== wanted) {
      return res.writeHead(401, { 'WWW-Authenticate': 'Basic realm="logs"' }).end('no');
    }
    const url = inner(req.url);
    if (url === null) return res.writeHead(404).end('outside of the prefix');
    const path = url.split('?')[0];
    if (dist && path.startsWith('/ui/')) {
      try {
        return asset(files().get(path.slice(4) || 'index.html'), req, res);
      } catch {
        return res.writeHead(503).end('the page is being built');
      }
    }
    if (hold?.(url)) return; // a server that does not answer
    const out = http.request({ host: to.hostname, port: to.port, path: url, method: req.method, headers: { ...req.headers, 'x-forwarded-host': req.headers.host } }, (answer) => {
      res.writeHead(answer.statusCode, answer.headers);
      answer.pipe(res);
    });
    out.on('error', () => { res.destroy(); });
    res.on('close', () => out.destroy());
    req.pipe(out);
  });

  server.on('upgrade', (req, socket, head) => {
    if (wanted && req.headers.authorization !== wanted) return socket.end('HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n');
    const url = inner(req.url);
    if (url === null) return socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n');
    const back = net.connect(Number(to.port), to.hostname, () => {
      const headers = { ...req.headers, 'x-forwarded-host': req.headers.host };
      back.write(`GET ${url} HTTP/1.1\r\n${Object.entries(headers).map(([k, v]) => `${k}: ${v}`).join('\r\n')}\r\n\r\n`);
      back.write(head);
      back.pipe(socket);
      socket.pipe(back);
    });
    const end = () => { back.destroy(); socket.destroy(); tails.delete(end); };
    tails.add(end);
    if (quiet) { back.setTimeout(quiet, end); socket.setTimeout(quiet, end); }
    back.on('error', end).on('close', end);
    socket.on('error', end).on('close', end);
  });

  return new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve({
    url: `http://127.0.0.1:${server.address().port}${prefix}/ui/`,
    base: `http://127.0.0.1:${server.address().port}${prefix}`,
    cutTails: () => { for (const end of tails) end(); },
    close: () => { for (const end of tails) end(); server.closeAllConnections(); return new Promise((done) => server.close(done)); },
  })));
}

function asset(file, req, res) {
  if (!file) return res.writeHead(404, { 'Content-Type': 'text/plain' }).end('404 page not found');
  const accepts = req.headers['accept-encoding'] ?? '';
  const encoding = accepts.includes('br') ? 'br' : accepts.includes('gzip') ? 'gz' : '';
  const etag = `"${file.etag}"`;
  const headers = {
    'Content-Type': file.type, ETag: etag, Vary: 'Accept-Encoding', 'Content-Security-Policy': POLICY, 'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer', 'Cache-Control': file.immutable ? 'public, max-age=31536000, immutable' : 'no-cache',
    ...(encoding ? { 'Content-Encoding': encoding === 'gz' ? 'gzip' : 'br' } : {}),
  };
  if (req.headers['if-none-match'] === etag) return res.writeHead(304, headers).end();
  res.writeHead(200, headers).end(readFileSync(DIST + file.name + (encoding ? '.' + encoding : '')));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const arg = (name, other) => { const i = process.argv.indexOf('--' + name); return i < 0 ? other : process.argv[i + 1]; };
  const s = await serve({ target: arg('target', 'http://127.0.0.1:3100'), port: Number(arg('port', '3200')), prefix: arg('prefix', ''), auth: arg('auth', ''), ...(process.argv.includes('--dist') ? { dist: true } : {}) });
  console.log(s.url);
}
