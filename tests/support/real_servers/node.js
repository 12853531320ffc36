// A server of a framework: node node.js express|fastify PORT, with the packages that NODE_PATH names.
'use strict'

const [framework, port] = process.argv.slice(2)
const turns = Number(process.env.TURNS ?? 0)

function hello () {
  let turn = 0
  while (turn < turns) turn++
  return turn === turns ? 'hello\n' : ''
}

if (framework === 'express') {
  require('express')().get('/', (_request, response) => response.type('text').send(hello())).listen(port, '127.0.0.1')
} else {
  const app = require('fastify')()
  app.get('/', (_request, reply) => reply.type('text/plain').send(hello()))
  app.listen({ host: '127.0.0.1', port: Number(port) })
}
