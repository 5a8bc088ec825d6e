-- A load that splits reads and writes: reads go to replicas, writes to the source.
--
-- Each event is one statement. Every thread has a connection to the source and one to a replica,
-- the replicas in turn; without replicas the source has it all. sysbench gives each connection the
-- next of its sockets, and another thread may be between two of ours: where there are several, a
-- server is known by its id, which is 1 at the source and one more at each replica. Behind a proxy it
-- is the proxy that chooses the replica.
sysbench.cmdline.options = {
   table_size = {"Rows of the table", 10000},
   replicas = {"Servers beside the source", 0},
   any_replica = {"Take the replica that a proxy gives", false},
   write_share = {"Share of the statements that write", 0.0},
}

local MOST_TRIES = 200

function thread_init()
   local driver = sysbench.sql.driver()
   local replicas = sysbench.opt.replicas
   if replicas == 0 then
      source = driver:connect()
      reader = source
      return
   end
   local wanted = 2 + sysbench.tid % replicas
   local tries = 0
   while not (source and reader) do
      local made = driver:connect()
      local id = tonumber(made:query_row("SELECT @@server_id"))
      local used = false
      if id == 1 and not source then source, used = made, true end
      local fits = id == wanted or (sysbench.opt.any_replica and id ~= 1)
      if fits and not reader then reader, used = made, true end
      if not used then made:disconnect() end
      tries = tries + 1
      if tries > MOST_TRIES then error("no connection led to server " .. wanted) end
   end
end

function event()
   local id = sysbench.rand.uniform(1, sysbench.opt.table_size)
   if sysbench.rand.uniform_double() < sysbench.opt.write_share then
      source:query("UPDATE sbtest1 SET k = k + 1 WHERE id = " .. id)
   else
      reader:query("SELECT c FROM sbtest1 WHERE id = " .. id)
   end
end

function thread_done()
   source:disconnect()
   if reader ~= source then reader:disconnect() end
end
