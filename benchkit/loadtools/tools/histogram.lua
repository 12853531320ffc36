-- Prints wrk's whole latency histogram and its exact counters after wrk's own text, for `measure.py` in this folder.
--
-- wrk 4 counts every answer's time in an array with a cell for each microsecond, up to the timeout. Before it calls
-- done() it adds samples for coordinated omission to that same array. They can be removed again with the figures printed
-- here and the number of connections alone.
--
-- The histogram is a list of numbers: @v states that the next count is of v microseconds, the one after it of v + 1, and
-- so on. Values without a count are omitted. From the sums after it a reader detects damaged numbers.

local WIDTH = 2000 -- characters per line

local function integer(number)
   return string.format("%.0f", number)
end

-- Returns the array of cells, or nil where its layout is not that of wrk 4.0 to 4.2:
--   struct { uint64_t count, limit, min, max, data[]; }
-- wrk's own access, latency(i), scans all cells for each one of them, which takes minutes for a wide histogram.
local function cells_of(latency)
   local has_ffi, ffi = pcall(require, "ffi") -- LuaJIT may be built without it
   if not has_ffi then
      return nil
   end
   local stats = ffi.cast("uint64_t **", latency)[0]
   local lowest, highest = tonumber(stats[2]), tonumber(stats[3])
   if lowest ~= latency.min or highest ~= latency.max or highest >= tonumber(stats[1]) then
      return nil
   end
   return stats + 4
end

-- Calls visit(value, count) for each value that has a count, from the lowest to the highest.
local function each_count(latency, visit)
   local cells = cells_of(latency)
   if not cells then
      for i = 1, #latency do
         visit(latency(i))
      end
      return
   end
   for value = latency.min, latency.max do
      local count = tonumber(cells[value])
      if count > 0 then
         visit(value, count)
      end
   end
end

local function print_histogram(latency)
   local line, length = {}, 0
   local expected, values, total, sum = nil, 0, 0, 0
   local function append(word)
      if length + #word >= WIDTH then
         print(table.concat(line, " "))
         line, length = {}, 0
      end
      line[#line + 1] = word
      length = length + #word + 1
   end
   each_count(latency, function(value, count)
      if value ~= expected then
         append("@" .. integer(value))
      end
      append(integer(count))
      expected = value + 1
      values, total, sum = values + 1, total + count, sum + value * count
   end)
   if length > 0 then
      print(table.concat(line, " "))
   end
   print("values " .. integer(values))
   print("counts " .. integer(total))
   print("sum_us " .. integer(sum))
end

local function print_all(summary, latency)
   print("duration_us " .. integer(summary.duration))
   print("requests " .. integer(summary.requests))
   print("bytes " .. integer(summary.bytes))
   for _, name in ipairs { "connect", "read", "write", "status", "timeout" } do
      print("errors_" .. name .. " " .. integer(summary.errors[name]))
   end
   print_histogram(latency)
end

function done(summary, latency)
   print("--- benchkit latency histogram 1")
   local succeeded, message = pcall(print_all, summary, latency)
   print("--- end of benchkit latency histogram" .. (succeeded and "" or ": failed: " .. tostring(message)))
end
