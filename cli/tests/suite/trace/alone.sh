# Executes enough to fill chunks of a ring, waits until it has no tracer, and then ends as its argument says.
i=0
while [ $i -lt 20000 ]; do i=$((i + 1)); done
i=0
until grep -q "^TracerPid:[[:space:]]*0$" /proc/$$/status; do
    i=$((i + 1))
    [ $i -lt 2000 ] || exit 1
done
echo alone
read -r line
echo "read $line"
case $1 in
exits) exit 7 ;;
executes) exec sh -c "exit 9" ;;
ends) kill -TERM $$ ;;
esac
