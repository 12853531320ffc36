// The load of a cell for k6: the requests of k6.load.json in turn, each by the virtual user that is free.
import http from 'k6/http';
import { scenario } from 'k6/execution';

const load = JSON.parse(open('./k6.load.json'));
const requests = load.requests.map(({ method, url, headers, body }) => ({
  method,
  url,
  body: body === null ? null : open(`./${body}`, 'b'),
  params: { headers, redirects: 0, ...load.params },
}));

export const options = load.options;

export default function () {
  const place = load.order.length === 1 ? 0 : load.order[scenario.iterationInTest % load.order.length];
  const { method, url, body, params } = requests[place];
  http.request(method, url, body, params);
}
