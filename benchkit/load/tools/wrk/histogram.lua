-- Prints wrk's whole latency histogram and its exact counters behind wrk's own text, for benchkit/load/wrk_histogram.py.
--
-- wrk 4 counts every answer's time in an array with a cell for each microsecond, up to the timeout. Before done() is
-- called it has added samples for coordinated omission to that same array; what was measured is found by taking them
-- out again, which needs nothing but the figures printed here and the number of connections.
--
-- The histogram is a list of numbers: @v says that the next count is of v microseconds, the one after it of v + 1, and
-- so on. Values without a count are left out. The sums behind it let a reader notice a number that was damaged.

local WIDTH = 2000 -- characters a line

local function whole(number)
   return string.format("%.0f", number)
end

-- The cells themselves, or nil where they are not found where wrk 4.0 to 4.2 has them:
--   struct { uint64_t count, limit, min, max, data[]; }
-- wrk's own way to them, latency(i), walks through all cells for each of them: minutes, where latencies spread.
local function cells_of(latency)
   local found, ffi = pcall(require, "ffi") -- a LuaJIT may be built without
   if not found then
      return nil
   end
   local stats = ffi.cast("uint64_t **", latency)[0]
   local lowest, highest = tonumber(stats[2]), tonumber(stats[3])
   if lowest ~= latency.min or highest ~= latency.max or highest >= tonumber(stats[1]) then
      return nil
   end
   return stats + 4
end

-- Calls take(value, count) for each value that has a count, from the lowest to the highest.
local function each(latency, take)
   local cells = cells_of(latency)
   if not cells then
      for i = 1, #latency do
         take(latency(i))
      end
      return
   end
   for value = latency.min, latency.max do
      local count = tonumber(cells[value])
      if count > 0 then
         take(value, count)
      end
   end
end

local function print_histogram(latency)
   local line, length = {}, 0
   local expected, values, total, sum = nil, 0, 0, 0
   local function put(word)
      if length + #word >= WIDTH then
         print(table.concat(line, " "))
         line, length = {}, 0
      end
      line[#line + 1] = word
      length = length + #word + 1
   end
   each(latency, function(value, count)
      if value ~= expected then
         put("@" .. whole(value))
      end
      put(whole(count))
      expected = value + 1
      values, total, sum = values + 1, total + count, sum + value * count
   end)
   if length > 0 then
      print(table.concat(line, " "))
   end
   print("values " .. whole(values))
   print("counts " .. whole(total))
   print("sum_us " .. whole(sum))
end

local function print_all(summary, latency)
   print("duration_us " .. whole(summary.duration))
   print("requests " .. whole(summary.requests))
   print("bytes " .. whole(summary.bytes))
   for _, name in ipairs { "connect", "read", "write", "status", "timeout" } do
      print("errors_" .. name .. " " .. whole(summary.errors[name]))
   end
   print_histogram(latency)
end

function done(summary, latency)
   print("--- benchkit latency histogram 1")
   local okay, why = pcall(print_all, summary, latency)
   print("--- end of benchkit latency histogram" .. (okay and "" or ": failed: " .. tostring(why)))
end
