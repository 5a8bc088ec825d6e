-- sysbench 1.0's OLTP with ids drawn from Zipf's law, which that release cannot draw.
--
-- INNOLAB_OLTP names the load that is changed, such as oltp_read_only; the exponent is 0.8, what
-- later releases of sysbench have by default. The rank of an id is its place in the table.
--
-- Drawn by rejection-inversion: W. Hoermann, G. Derflinger (1996), "Rejection-inversion to generate
-- variates from monotone discrete distributions", ACM TOMACS 6(3).
require(os.getenv("INNOLAB_OLTP"))

local EXPONENT = 0.8
local rest = 1 - EXPONENT
local floor = math.floor

-- The integral of x^-EXPONENT from 1 to x, and its inverse.
local function area(x) return (x ^ rest - 1) / rest end
local function place(y) return (1 + y * rest) ^ (1 / rest) end

local low = area(1.5) - 1
local squeeze = 2 - place(area(2.5) - 2 ^ -EXPONENT)

local function zipf(a, b)
   local n = b - a + 1
   local high = area(n + 0.5)
   while true do
      local y = high + sysbench.rand.uniform_double() * (low - high)
      local x = place(y)
      local k = floor(x + 0.5)
      if k < 1 then k = 1 elseif k > n then k = n end
      if k - x <= squeeze or y >= area(k + 0.5) - k ^ -EXPONENT then
         return a + k - 1
      end
   end
end

sysbench.rand.default = zipf
