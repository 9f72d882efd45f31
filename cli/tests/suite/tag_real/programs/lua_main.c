// Runs a Lua script.
#include "lua.h"
#include "lauxlib.h"
#include "lualib.h"
#include <stdio.h>
int main(int c, char **v) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    int bad = c < 2 || luaL_dofile(L, v[1]);
    if (bad) fprintf(stderr, "%s\n", lua_tostring(L, -1));
    lua_close(L);
    return bad;
}
