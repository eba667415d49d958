"""What Valkey does for a stream in one step each. Keys of a stream `S`:

S          hash: node, dialled, up and down (bytes under way), full:up and full:down (who pushes
           waits for room), end:client and end:agent (why that side closed)
S:up       list: frames on the way to the node
S:down     list: frames on the way to the client
S:client   that side's process is alive, as S:agent
"""

from __future__ import annotations

NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

# KEYS S, S:client, of the user, of the node, orders
# ARGV id, node, most of a user, most of a node, ms to dial, ms alive, order
OPEN = (
    NOW
    + """
for i = 3, 4 do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now)
  if redis.call('ZCARD', KEYS[i]) >= tonumber(ARGV[i]) then return i end
end
for i = 3, 4 do
  redis.call('ZADD', KEYS[i], now + ARGV[5], ARGV[1])
  redis.call('PEXPIRE', KEYS[i], 3600000)
end
redis.call('HSET', KEYS[1], 'node', ARGV[2], 'up', 0, 'down', 0)
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('SET', KEYS[2], 1, 'PX', ARGV[6])
redis.call('RPUSH', KEYS[5], ARGV[7])
redis.call('PEXPIRE', KEYS[5], ARGV[5])
return 0
"""
)

# KEYS S, S:agent   ARGV node, ms alive, ms kept, channel, bell
DIAL = """
if redis.call('HGET', KEYS[1], 'node') ~= ARGV[1] then return 0 end
if redis.call('HSETNX', KEYS[1], 'dialled', 1) == 0 then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 1
"""

# KEYS S, mine, theirs, S:up, S:down, of the user, of the node
# ARGV ms alive, ms kept, id, end:theirs
# Answers whether the stream is there, and whether its other side is alive, or has closed in order.
KEEP = (
    NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 0 then return {0, 0} end
redis.call('SET', KEYS[2], 1, 'PX', ARGV[1])
for _, key in ipairs({KEYS[1], KEYS[4], KEYS[5]}) do redis.call('PEXPIRE', key, ARGV[2]) end
for i = 6, #KEYS do
  redis.call('ZADD', KEYS[i], 'XX', now + ARGV[2], ARGV[3])
  redis.call('PEXPIRE', KEYS[i], 3600000)
end
return {1, redis.call('EXISTS', KEYS[3]) + redis.call('HEXISTS', KEYS[1], ARGV[4])}
"""
)

# KEYS S, list   ARGV up or down, frame, most bytes, ms kept, channel, bell
# 1: taken, or the other side has closed and nobody wants it; 0: no room; -1: no such stream.
PUSH = """
local size = tonumber(redis.call('HGET', KEYS[1], ARGV[1]))
local other = ARGV[1] == 'up' and 'end:agent' or 'end:client'
if not size then return -1 end
if redis.call('HEXISTS', KEYS[1], other) == 1 then return 1 end
if size > 0 and size + #ARGV[2] > tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'full:' .. ARGV[1], 1)
  return 0
end
redis.call('RPUSH', KEYS[2], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('HINCRBY', KEYS[1], ARGV[1], #ARGV[2])
if size == 0 then redis.call('PUBLISH', ARGV[5], ARGV[6]) end
return 1
"""

# KEYS S, list   ARGV up or down, most bytes at once, channel, bell
# {state, frames...}. State: "" more may come, "gone", or after the last frame "end:" and why.
POP = """
local size = tonumber(redis.call('HGET', KEYS[1], ARGV[1]))
if not size then return {'gone'} end
local answer, taken = {''}, 0
while taken < tonumber(ARGV[2]) do
  local frame = redis.call('LPOP', KEYS[2])
  if not frame then break end
  answer[#answer + 1] = frame
  taken = taken + #frame
end
if taken > 0 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], -taken)
  if redis.call('HDEL', KEYS[1], 'full:' .. ARGV[1]) == 1 then
    redis.call('PUBLISH', ARGV[3], ARGV[4])
  end
elseif size > 0 then
  return {'gone'}
else
  local why = redis.call('HGET', KEYS[1], ARGV[1] == 'up' and 'end:client' or 'end:agent')
  if why then answer[1] = 'end:' .. why end
end
return answer
"""

# KEYS S, S:up, S:down, mine, theirs, of the user, of the node
# ARGV client or agent, why, ms kept, id, channel, bell
CLOSE = """
for i = 6, #KEYS do redis.call('ZREM', KEYS[i], ARGV[4]) end
redis.call('DEL', KEYS[4])
if redis.call('EXISTS', KEYS[1]) == 0 then return end
local other = ARGV[1] == 'client' and 'end:agent' or 'end:client'
if redis.call('HEXISTS', KEYS[1], other) == 1 or redis.call('EXISTS', KEYS[5]) == 0 then
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[5])
else
  redis.call('HSET', KEYS[1], 'end:' .. ARGV[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
redis.call('PUBLISH', ARGV[5], ARGV[6])
"""
