// Runs a Lua script with one argument.
#include "lua.h"
#include "lauxlib.h"
#include "lualib.h"
int main(int count, char **words) {
    lua_State *state = luaL_newstate();
    luaL_openlibs(state);
    int failed = count < 3 || luaL_loadfile(state, words[1]);
    if (!failed) failed = (lua_pushstring(state, words[2]), lua_pcall(state, 1, 0, 0));
    lua_close(state);
    return failed;
}
