-- A little of everything: tables, strings, closures, coroutines, errors, a parser's work.
local numbers = {}
for i = 1, 3000 do numbers[i] = (i * 7919) % 1009 end
table.sort(numbers, function(a, b) return a < b end)
local words = {}
for word in ("the quick brown fox jumps"):rep(40):gmatch("%a+") do words[word] = (words[word] or 0) + 1 end
local names = {}
for word in pairs(words) do names[#names + 1] = word end
table.sort(names)
local next_number = coroutine.wrap(function() for i = 1, 200 do coroutine.yield(i) end end)
local sum = 0
for _ = 1, 200 do sum = sum + next_number() end
local fine, failure = pcall(function() error({1}) end)
for i = 1, 100 do pcall(error, "x"); string.format("%5.2f %s", i / 3, tostring(i)) end
print(numbers[5], table.concat(names, ","), sum, fine, type(failure), ("abc"):gsub("b", "%0%0"))
print(load("local a = ... return a * 2")(21), select("#", table.unpack(numbers, 1, 50)), utf8.char(228))
collectgarbage()
error("the end")
