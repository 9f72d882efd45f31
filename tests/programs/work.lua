-- Works with numbers, strings, tables and closures. The argument is the number of rounds.
local turns = tonumber(arg and arg[1] or ...) or 1
local sum = 0
for turn = 1, turns do
    local list = {}
    for i = 1, 4000 do list[i] = (i * 7919 + turn) % 1009 end
    table.sort(list, function(a, b) return a < b end)
    local words = {}
    for word in ("the quick brown fox jumps"):rep(50):gmatch("%a+") do words[word] = (words[word] or 0) + 1 end
    for i = 1, 500 do sum = sum + #string.format("%5.2f %s", i / 3, tostring(i)) end
    local function depth(n) return n == 0 and 0 or 1 + depth(n - 1) end
    sum = sum + depth(150) + list[10] + words.fox
end
print(sum)
