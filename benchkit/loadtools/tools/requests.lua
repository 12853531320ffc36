-- Sends the requests of a load. Before this stand `limits`, the shares of the requests added up, and `formatted`, which
-- returns the requests. Every thread draws them by their weights, with a seed of its own that is the same in every trial.

local threads, requests = 0, {}

function setup(thread)
   threads = threads + 1
   thread:set("benchkit_thread", threads)
end

local function content(name)
   local file = assert(io.open(name, "rb"))
   local bytes = file:read("*a")
   file:close()
   return bytes
end

function init()
   math.randomseed(benchkit_thread)
   requests = formatted(content)
end

function request()
   local drawn = math.random()
   for number = 1, #limits do
      if drawn < limits[number] then
         return requests[number]
      end
   end
   return requests[#requests]
end
