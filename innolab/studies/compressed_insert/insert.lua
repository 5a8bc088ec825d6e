-- Inserts into the table of seed S1 until an exact number of rows is in it: sysbench's --events.
--
-- An event is one statement, committed on its own. With --mysql-ignore-errors=none any SQL error
-- ends the whole run: nothing is tried again in silence.
sysbench.cmdline.options = {
   table_name = {"The table", "test"},
   rows_per_statement = {"Rows in one INSERT", 1},
   keys = {"auto: numbered by the server; shuffled: a permutation of the rows' turns", "auto"},
   random_share = {"Share of each string that is drawn; the rest is always the same", 0.5},
}

local ffi = require("ffi")
local bit = require("bit")
local uniform, drawn = sysbench.rand.uniform, sysbench.rand.string

local SAME = "jejuhallasanseogwipo"
local DOMAIN = "@example.com"
local LOCAL_LEAST, LOCAL_MOST = 7, 13
local NAME_LEAST, NAME_MOST = 7, 15

local con, turn, shuffles
local statement, forms = {}, {}

function thread_init(thread)
   con = sysbench.sql.driver():connect()
   -- From 1: turn 0 would have key 0, for which the server takes a number of its own.
   turn = thread + 1
   shuffles = sysbench.opt.keys == "shuffled"
   for length = 1, math.max(LOCAL_MOST, NAME_MOST) do
      local random = math.ceil(length * sysbench.opt.random_share)
      forms[length] = string.rep("@", random) .. string.sub(SAME, 1, length - random)
   end
end

-- Products with odd numbers and a folded shift, modulo 2^31: a permutation. Rows of neighbouring
-- turns lie far apart, in no order.
local A, B, M = ffi.new("uint64_t", 1140671485), ffi.new("uint64_t", 1664525), 2147483648ULL
local function shuffled(x)
   local y = tonumber((A * x) % M)
   return tonumber((B * bit.bxor(y, bit.rshift(y, 16))) % M)
end

local function key()
   if not shuffles then return "NULL" end
   assert(turn < 2 ^ 31, "a thread took more turns than there are keys")
   local found = shuffled(turn)
   turn = turn + sysbench.opt.threads
   return found
end

local function text(least, most)
   return drawn(forms[uniform(least, most)])
end

function event()
   for i = 1, sysbench.opt.rows_per_statement do
      statement[i] = "(" .. key() .. ",'" .. text(LOCAL_LEAST, LOCAL_MOST) .. DOMAIN .. "','"
         .. text(NAME_LEAST, NAME_MOST) .. "')"
   end
   con:query("INSERT INTO " .. sysbench.opt.table_name .. " (NO, EMAIL, NAME) VALUES "
      .. table.concat(statement, ","))
end

function thread_done()
   con:disconnect()
end
